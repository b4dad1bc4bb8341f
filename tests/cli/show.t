# A tree of sites: anomalies first, repeated layers folded.
$ make_run good good
$ make_run nan-forward bad
# env: COLUMNS=80
$ tensortap show good
good  finished  steps 0 to 49  36 sites  1800 points  62.3 kB
train.py --lr 0.1
nothing found in 50 steps; 7 of 38 rules had no data: no optimizer, no inputs of
         a model

SITE               LATEST               MIN       MAX        MEAN  RMS
activation
├─ embed           f32[8,16]        -0.2893    0.2873    -0.01049  █▆▄▃▂▂▁▁
├─ layers.0-3      4× f32[8,16]     -0.8589     0.863     0.01696  █▆▄▃▂▂▁▁
│  ├─ attn         4× f32[8,16]     -0.5793    0.5769   -0.007258  █▆▄▃▂▂▁▁
│  └─ mlp          4× f32[8,16]     -0.5759    0.5735    0.008565  █▆▅▃▂▂▁▁
├─ head            f32[8,16]        -0.1392    0.1442     0.01192  █▆▄▃▂▂▁▁
└─ (root)          f32[8,16]        -0.1421    0.1448    0.003694  █▆▄▃▃▂▂▁
loss               number 0.3898                                   █▅▄▃▂▂▁▁
parameter
├─ embed.weight    f32[8,16]        -0.2986     0.294   -0.007107  ▄▄▄▄▄▄▄▄
├─ layers.0-3
│  ├─ attn.weight  4× f32[8,16]     -0.3262    0.3289     0.01347  ▁▂▃▄▅▆▇█
│  └─ mlp.weight   4× f32[8,16]     -0.3264    0.3263    0.004246  ▁▂▃▄▅▆▇█
└─ head.bias       f32[16]          -0.1091    0.1091    0.005909  ▁▂▃▄▅▆▇█
gradient
├─ embed.weight    f32[8,16]      -0.002865  0.002769   -0.000198  █▅▄▃▂▂▁▁
├─ layers.0-3
│  ├─ attn.weight  4× f32[8,16]   -0.002879  0.002885  -0.0001555  █▆▄▃▂▂▁▁
│  └─ mlp.weight   4× f32[8,16]   -0.002894  0.002875  -0.0001275  █▆▄▃▂▂▁▁
└─ head.bias       f32[16]                0         0           0  ▄▄▄▄▄▄▄▄
# env: COLUMNS=200
$ tensortap show bad 'activation/*,loss'
bad  finished  steps 0 to 49  36 sites  1800 points  62.8 kB
train.py --lr 0.1

error    nonfinite  activation/layers.2.attn: the first NaN at step 31; born in the forward pass; it reached 9 sites
  what to do: tensortap health bad

SITE           LATEST                 MIN     MAX       MEAN      STD  RMS OVER STEPS
activation
├─ embed       float32[8, 16]     -0.2893  0.2873   -0.01049   0.1715  █▇▆▅▄▄▃▃▂▂▂▂▂▁▁▁
├─ layers.0-3  4× float32[8, 16]  -0.8589   0.863    0.01696   0.5017  █▇▆▅▄▄▃▃▃▂!▂▂▁▁▁  not finite from step 31
│  ├─ attn     4× float32[8, 16]  -0.5793  0.5769  -0.007258   0.3331  █▇▆▅▄▄▃▃▂▂!▂▁▁▁▁  nonfinite
│  └─ mlp      4× float32[8, 16]  -0.5759  0.5735   0.008565    0.327  █▇▆▅▄▄▃▃▂▂!▂▂▁▁▁  not finite from step 31
├─ head        float32[8, 16]     -0.1392  0.1442    0.01192  0.07985  █▇▆▅▄▄▃▃▃▂!▂▁▁▁▁  not finite from step 31
└─ (root)      float32[8, 16]     -0.1421  0.1448   0.003694  0.08719  █▆▆▅▄▄▃▃▃▂!▂▂▁▁▁  not finite from step 31
loss           number 0.3898                                           █▆▅▄▃▃▃▂▂▂!▁▁▁▁▁  not finite from step 31
$ tensortap show bad 'activation/layers.2*' --all
bad  finished  steps 0 to 49  36 sites  1800 points  62.8 kB
train.py --lr 0.1

error    nonfinite  activation/layers.2.attn: the first NaN at step 31; born in the forward pass; it reached 9 sites
  what to do: tensortap health bad

SITE         LATEST              MIN     MAX      MEAN     STD  RMS OVER STEPS
activation
└─ layers.2  float32[8, 16]  -0.8557   0.863  0.009337  0.5102  █▇▆▅▄▄▃▃▃▂!▂▂▁▁▁  not finite from step 31
   ├─ attn   float32[8, 16]  -0.5752   0.576   0.02977  0.3309  █▇▆▅▄▄▃▃▂▂!▂▁▁▁▁  nonfinite
   └─ mlp    float32[8, 16]  -0.5713  0.5427  -0.01009  0.3331  █▇▆▅▄▄▃▃▂▂!▂▂▁▁▁  not finite from step 31
# env: COLUMNS=80
# env: LC_ALL=C
$ tensortap show good 'activation/*'
good  finished  steps 0 to 49  36 sites  1800 points  62.3 kB
train.py --lr 0.1

SITE           LATEST            MIN     MAX       MEAN      STD  RMS
activation
|- embed       f32[8,16]     -0.2893  0.2873   -0.01049   0.1715  #+-:..__
|- layers.0-3  4x f32[8,16]  -0.8589   0.863    0.01696   0.5017  #+-:..__
|  |- attn     4x f32[8,16]  -0.5793  0.5769  -0.007258   0.3331  #+-:..__
|  `- mlp      4x f32[8,16]  -0.5759  0.5735   0.008565    0.327  #+=:..__
|- head        f32[8,16]     -0.1392  0.1442    0.01192  0.07985  #+-:..__
`- (root)      f32[8,16]     -0.1421  0.1448   0.003694  0.08719  #+-::.._
# env: LC_ALL=C.UTF-8
$ tensortap show good --json 'loss'
{"schema":1,
"run":"good",
"state":"finished",
"command":"train.py --lr 0.1",
"first_step":0,
"last_step":49,
"points":1800,
"bytes":62336,
"untrained":null,
"sites":[{"site":"loss","rank":0,"points":50,"findings":[],"finite":true,"latest":{"step":49,"call":0,"time":1767607200006780000,"phase":"none","value":0.38983050847457623}}]}
# Names that nearly match.
$ tensortap show good activation/layer.0.attn
tensortap: no site matches 'activation/layer.0.attn'; did you mean 'activation/layers.0.attn'?
[2]
$ tensortap show good head
tensortap: no site matches 'head'; did you mean 'activation/head'?
[2]
$ tensortap show good zzz
tensortap: no site matches 'zzz'; 'tensortap show RUN' lists them, * stands for anything
[2]
$ tensortap show nowhere
tensortap: no run at 'nowhere'; 'tensortap ls FOLDER' lists runs
[3]
$ tensortap show
tensortap show: name a run; 'tensortap ls' lists them
[2]
$ tensortap show good --rank 3
tensortap: this run has no rank 3; it has rank 0
[2]
$ tensortap show good | head -n 1
good  finished  steps 0 to 49  36 sites  1800 points  62.3 kB
$ tensortap show good > /dev/full
tensortap: cannot write the output: No space left on device
[3]
# A terminal: coloured, limited to its lines; NO_COLOR turns colour off.
$ script -qec 'stty rows 14 cols 80; tensortap show bad' /dev/null < /dev/null | tr -d '\r' | sed 's/\x1b/^/g'
bad  ^[32mfinished^[0m  steps 0 to 49  36 sites  1800 points  62.8 kB
^[2mtrain.py --lr 0.1^[0m

^[1;31merror  ^[0m^[2m  nonfinite^[0m  activation/layers.2.attn: the first NaN at step 31; born in
         the forward pass; it reached 9 sites
  ^[2mwhat to do: tensortap health bad^[0m

^[2mSITE^[0m           ^[2mLATEST^[0m            ^[2mMIN^[0m     ^[2mMAX^[0m  ^[2mRMS^[0m
activation
^[2m├─ ^[0membed       ^[36mf32[8,16]^[0m     -0.2893  0.2873  ^[32m█▆▄▃▂▂▁▁^[0m
^[2m├─ ^[0mlayers.0-3  ^[36m4× f32[8,16]^[0m  -0.8589   0.863  ^[1;31m█▆▄▃▃!▁▁^[0m  ^[1;31mnot finite from step 31^[0m
^[2m│  ├─ ^[0mattn     ^[36m4× f32[8,16]^[0m  -0.5793  0.5769  ^[1;31m█▆▄▃▂!▁▁^[0m  ^[1;31mnonfinite^[0m
... 16 more lines; --all shows them, or give a pattern such as 'activation/*'
$ script -qec 'stty rows 14 cols 80; NO_COLOR=1 tensortap show good loss' /dev/null < /dev/null | tr -d '\r' | sed 's/\x1b/^/g'
good  finished  steps 0 to 49  36 sites  1800 points  62.3 kB
train.py --lr 0.1

SITE  LATEST         RMS
loss  number 0.3898  █▅▄▃▂▂▁▁
# Training and evaluation apart: the latest of training, over steps.
# env: COLUMNS=80
$ make_run evaluated evaluated; tensortap show evaluated 'activation/embed,activation/head,activation/probe'
evaluated  finished  steps 0 to 19  37 sites  1620 points  45.7 kB
train.py --lr 0.1

SITE        LATEST         MIN     MAX       MEAN     STD  RMS
activation
├─ embed    f32[8,16]  -0.5061  0.5011    0.02367  0.3109  █▆▅▄▃▂▁▁
├─ head     f32[8,16]  -0.2525  0.2555    0.02004  0.1449  █▆▄▄▃▂▂▁
└─ probe    f32[8,16]  -0.5126  0.5091  -0.002838  0.2877  █▁        eval
2 of these lines leave out evaluation; --phase eval shows it, --phase all both
$ tensortap show evaluated 'activation/embed,activation/head,activation/probe' --phase eval
evaluated  finished  steps 0 to 19  37 sites  1620 points  45.7 kB
train.py --lr 0.1

SITE        LATEST         MIN     MAX       MEAN     STD  RMS
activation
├─ embed    f32[8,16]   -50.61   50.11      2.367   31.09  █▁   eval
├─ head     f32[8,16]   -25.25   25.55      2.004   14.49  █▁   eval
└─ probe    f32[8,16]  -0.5126  0.5091  -0.002838  0.2877  █▁   eval
$ tensortap show evaluated 'activation/embed,loss' --phase all
evaluated  finished  steps 0 to 19  37 sites  1620 points  45.7 kB
train.py --lr 0.1

training
SITE        LATEST             MIN     MAX     MEAN     STD  RMS
activation
└─ embed    f32[8,16]      -0.5061  0.5011  0.02367  0.3109  █▆▅▄▃▂▁▁
loss        number 0.7931                                    █▆▄▃▃▂▁▁

evaluation
SITE        LATEST        MIN    MAX   MEAN    STD  RMS
activation
└─ embed    f32[8,16]  -50.61  50.11  2.367  31.09  █▁   eval
$ tensortap show evaluated 'loss' --phase eval
evaluated  finished  steps 0 to 19  37 sites  1620 points  45.7 kB
train.py --lr 0.1
tensortap: no site that matches 'loss' has points of this phase
[2]
$ tensortap show evaluated --phase test
tensortap show: --phase takes train, eval or all, not 'test'
[2]
$ tensortap show evaluated 'activation/embed' --phase all --json | sed 's/"time":[0-9]*//g'
{"schema":1,
"run":"evaluated",
"state":"finished",
"command":"train.py --lr 0.1",
"first_step":0,
"last_step":19,
"points":1620,
"bytes":45696,
"untrained":null,
"sites":[{"site":"activation/embed","rank":0,"points":320,"findings":[],"finite":true,"latest":{"step":19,"call":0,,"phase":"train","dtype":"float32","count":128,"nan":0,"posinf":0,"neginf":0,"zeros":0,"min":-0.506067156791687,"max":0.5010831952095032,"absmax":0.506067156791687,"sum":3.0296427607536316,"mean":0.023669084068387747,"std":0.3109061725124245,"l1":35.64199423789978,"l2":3.513952927787279,"rms":0.31059249300108843,"shape":[8,16]},"evaluation":{"step":19,"call":0,,"phase":"eval","dtype":"float32","count":128,"nan":0,"posinf":0,"neginf":0,"zeros":0,"min":-50.606719970703125,"max":50.10831832885742,"absmax":50.606719970703125,"sum":302.9644088745117,"mean":2.366909444332123,"std":31.090617284889188,"l1":3564.1993713378906,"l2":351.395294051306,"rms":31.059249412589917,"shape":[8,16]}}]}
$ tensortap show evaluated 'activation/probe' --json | grep -o '"phase":"[a-z]*"'
"phase":"eval"
# Every rank counts for anomalies; the numbers say whose they are.
$ make_run rank1-nan ranks; tensortap show ranks 'activation/layers.0*'
ranks  finished  steps 0 to 19  36 sites  1440 points  59.6 kB  ranks 0, 1
train.py --lr 0.1
numbers are of rank 0 where it has the site; --rank N shows another's

error    nonfinite  rank 1: activation/layers.0.mlp: the first NaN at step 7;
         born in the forward pass; it reached 14 sites
  what to do: tensortap health ranks

SITE         LATEST         MIN     MAX  RMS
activation
└─ layers.0  f32[8,16]   -1.537   1.487  █▆▅▄▃▂▂▁  not finite from step 7
   ├─ attn   f32[8,16]   -1.022   1.015  █▇▅▄▃▃▂▁
   └─ mlp    f32[8,16]  -0.9958  0.9937  █▆▅▄▃▃▂▁  nonfinite
$ tensortap show ranks 'activation/layers.0*' --rank 0
ranks  finished  steps 0 to 19  36 sites  1440 points  59.6 kB  ranks 0, 1
train.py --lr 0.1

SITE         LATEST         MIN     MAX      MEAN     STD  RMS
activation
└─ layers.0  f32[8,16]   -1.537   1.487   0.08914  0.8474  █▆▅▄▃▂▂▁
   ├─ attn   f32[8,16]   -1.022   1.015   0.02945  0.5696  █▇▅▄▃▃▂▁
   └─ mlp    f32[8,16]  -0.9958  0.9937  -0.02338  0.5687  █▆▅▄▃▃▂▁
$ tensortap show ranks --rank 7
tensortap: this run has no rank 7; it has ranks 0, 1
[2]
# How it ended.
$ make_run raised raised; tensortap show raised loss; tensortap ls raised
raised  stopped  steps 0 to 2  36 sites  108 points  11.2 kB
the program was stopped by ValueError: bad luck
train.py --lr 0.1

SITE  LATEST        RMS
loss  number 1.917  █▄▁
RUN     VERDICT         LOSS  STARTED              STATE    STEPS     SIZE
raised  nothing found  1.917  2026-01-05 10:00:00  stopped      3  11.2 kB
# An Inf among the largest numbers of float16.
$ make_run overflow overflow; tensortap show overflow 'activation/layers.1.*'
overflow  finished  steps 0 to 7  36 sites  288 points  16.6 kB
train.py --lr 0.1

error    nonfinite  activation/layers.1.mlp: the first Inf (float16 ends at
         65504) at step 5; born in the forward pass; it reached 11 sites
  what to do: tensortap health overflow

SITE         LATEST        MIN    MAX   MEAN    STD  RMS
activation
└─ layers.1
   ├─ attn   f16[8,16]  -29626  28874  257.8  16445  █▇▅▆▃▃▂▁
   └─ mlp    f16[8,16]  -28412  29137  649.9  17262  █▇▄▅▃!▃▁  nonfinite
# A pattern with one word that is wrong.
$ tensortap show good 'activatoin/*'
tensortap: no site matches 'activatoin/*'; did you mean 'activation/*'?
[2]
$ tensortap show good 'activation/*.atn'
tensortap: no site matches 'activation/*.atn'; did you mean 'activation/*.attn'?
[2]
$ tensortap show good 'gradient/layer.*.weight'
tensortap: no site matches 'gradient/layer.*.weight'; did you mean 'gradient/layers.*.weight'?
[2]
$ tensortap show good '*.nothing.of.the.kind'
tensortap: no site matches '*.nothing.of.the.kind'; 'tensortap show RUN' lists them, * stands for anything
[2]
