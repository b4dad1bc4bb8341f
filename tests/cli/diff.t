# Where two runs diverge.
# env: COLUMNS=80
$ make_run good a; make_run good b; tensortap diff a b
identical
1800 points compared; sites: 36 identical, 0 within noise, 0 differ
$ make_run shorter shorter; tensortap diff a shorter
identical
1080 points compared; sites: 36 identical, 0 within noise, 0 differ
720 points only in a: its steps or calls are not in the other
$ make_run changed-weight weight; tensortap diff a weight
they diverge at step 0 in parameter/layers.1.attn.weight
there rms is 0.1697 against 0.1714, off by 0.99% where rounding explains 2.4e-07
1800 points compared; sites: 35 identical, 0 within noise, 1 differ

WORST                           FROM STEP  AT  FIELD       A       B  OFF BY
parameter/layers.1.attn.weight          0   0  rms    0.1697  0.1714  0.0099

tensortap report a weight
tensortap stats a parameter/layers.1.attn.weight --step 0:0
[1]
$ make_run changed-layer layer; tensortap diff a layer
they diverge at step 0 in activation/layers.2.attn
there rms is 1.208 against 1.22, off by 0.99% where rounding explains 1.2e-06
1800 points compared; sites: 35 identical, 0 within noise, 1 differ

WORST                     FROM STEP  AT  FIELD       A       B  OFF BY    FLOOR
activation/layers.2.attn          0  45  rms    0.3651  0.3687  0.0099  1.2e-06

tensortap report a layer
tensortap stats a activation/layers.2.attn --step 0:0
[1]
$ make_run rounded rounded; tensortap diff a rounded
within noise: no more than rounding
1800 points compared; sites: 35 identical, 1 within noise, 0 differ

WORST             FROM STEP  AT  FIELD       A       B   OFF BY    FLOOR
activation/embed          0  12  rms    0.3477  0.3477  1.4e-07  1.2e-06
# A lower precision is noise; a fault of one percent in one layer of it is not.
$ make_run half half; tensortap diff a half | head -n 3
types differ in 25 sites: activation/embed is float32 against bfloat16
within noise: no more than rounding
1800 points compared; sites: 11 identical, 25 within noise, 0 differ
$ make_run half-changed fault; tensortap diff a fault | head -n 7
types differ in 25 sites: activation/embed is float32 against bfloat16
they diverge at step 0 in activation/layers.2.attn
there rms is 1.208 against 1.22, off by 0.97% where rounding explains 0.78%
1800 points compared; sites: 11 identical, 24 within noise, 1 differ

WORST                          FROM STEP  FIELD          A          B   OFF BY
activation/layers.2.attn               0  rms       0.6103     0.6167     0.01
$ make_run renamed renamed; tensortap diff a renamed
identical
1800 points compared; sites: 36 identical, 0 within noise, 0 differ
'layers' in names of the first matches 'blocks' in the second
$ tensortap diff a renamed --rename layers=bolcks | head -n 4
identical in the sites that both have
400 points compared; sites: 8 identical, 0 within noise, 0 differ
'layers' in names of the first matches 'bolcks' in the second
only in a: 28 sites, activation/layers.0.attn, activation/layers.0.mlp, activation/layers.0 ...
$ tensortap diff a renamed --rename layers
tensortap diff: --rename takes OLD=NEW, not 'layers'
[2]
$ make_run ranks ranks; tensortap diff a ranks
identical in the sites that both have
720 points compared; sites: 36 identical, 0 within noise, 0 differ
1080 points only in a: its steps or calls are not in the other
only in ranks: 36 sites, activation/embed, activation/layers.0.attn, activation/layers.0.mlp ...
$ make_run nan-forward nan; tensortap diff a nan | head -n 6
they diverge at step 31 in activation/layers.2.attn
there nan is 0 against 2
1800 points compared; sites: 27 identical, 0 within noise, 9 differ

WORST                     FROM STEP  AT  FIELD      A    B  OFF BY    FLOOR
activation/layers.2.attn         31  31  nan        0    2     inf  1.2e-06
$ tensortap diff a layer --step 100:
nothing to compare: no site has points of the same steps in both runs
0 points compared; sites: 0 identical, 0 within noise, 0 differ
[2]
$ tensortap diff a layer --rtol 0.1
within the tolerance
1800 points compared; sites: 35 identical, 1 within tolerance, 0 differ

WORST                     FROM STEP  AT  FIELD        A        B  OFF BY
activation/layers.2.attn          0   0  mean   -0.1374  -0.1388  0.0014
$ tensortap diff a layer --rtol 1e-3 --only 'activation/*'
they diverge at step 0 in activation/layers.2.attn
there mean is -0.1374 against -0.1388
750 points compared; sites: 14 identical, 0 within tolerance, 1 differ

WORST                     FROM STEP  AT  FIELD        A        B  OFF BY
activation/layers.2.attn          0   0  mean   -0.1374  -0.1388  0.0014

tensortap report a layer
tensortap stats a activation/layers.2.attn --step 0:0
[1]
$ tensortap diff a layer --only loss --json
{"schema":1,
"verdict":"identical",
"first":null,
"premises":[],
"answers":[{"kind":"divergence","severity":"fine","likelihood":"","rule":"identical","place":"","sentence":"identical","detail":[],"remedy":"","code":"","follows":"","follow_count":0,"sites":[],"site_count":0,"first_step":-1,"last_step":-1,"call":-1,"rank":-1,"ranks":[],"numbers":{},"feeds":[],"next":[]}],
"sites":[{"site":"loss","rank":0,"verdict":"identical","points":50,"only_a":0,"only_b":0}]}
$ tensortap diff a layer --rtol many
tensortap diff: --rtol takes a number from 0 on, not 'many'
[2]
$ tensortap diff a
tensortap diff: name two runs; 'tensortap ls' lists them
[2]
$ tensortap diff a nowhere
tensortap: no run at 'nowhere'; 'tensortap ls FOLDER' lists runs
[3]
