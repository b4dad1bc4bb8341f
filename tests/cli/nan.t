# The origin of the first value that is not finite.
# env: COLUMNS=80
$ make_run good good; tensortap nan good
all values of 36 sites in 50 steps are finite
$ make_run nan-forward forward; tensortap nan forward
2 NaN in activation/layers.2.attn at step 31
born in the forward pass; everything recorded before it was finite
point 8 of 36 in the step; 9 of 36 sites have been non-finite since

           SITE                            TYPE           MIN     MAX
here       activation/layers.2.attn        f32[8,16]  -0.7615  0.7827  2 NaN
fed by     activation/layers.1             f32[8,16]   -1.175   1.154
fed by     activation/layers.1.mlp         f32[8,16]  -0.7811  0.7664
parameter  parameter/layers.2.attn.weight  f32[8,16]  -0.3113  0.3054
last time  activation/layers.2.attn        f32[8,16]  -0.7956  0.7961

tensortap stats forward activation/layers.2.attn
[1]
$ make_run nan-first first; tensortap nan first
2 NaN in activation/embed at step 0
born in the forward pass; nothing was recorded before it in this step
look next at the inputs of modules: tensortap run --inputs --on-nonfinite raise
point 1 of 36 in the step; 16 of 36 sites have been non-finite since

           SITE                    STEP  TYPE           MIN     MAX
here       activation/embed           0  f32[8,16]  -0.9558  0.9748  2 NaN
parameter  parameter/embed.weight     0  f32[8,16]  -0.2986   0.294

tensortap stats first activation/embed
[1]
$ make_run nan-gradient gradient; tensortap nan gradient
2 Inf in gradient/layers.1.mlp.weight at step 20
born in the backward pass, among 5 gradients that were read together, or in a
  loss that was not seen; recorded module outputs were finite
look next at the gradients of outputs: tensortap run --grads all --on-nonfinite
  raise
point 31 of 36 in the step; 5 of 36 sites have been non-finite since

           SITE                           TYPE             MIN       MAX
here       gradient/layers.1.mlp.weight   f32[8,16]  -0.004904  0.004959  2 Inf
parameter  parameter/layers.1.mlp.weight  f32[8,16]    -0.3083    0.3091
last time  gradient/layers.1.mlp.weight   f32[8,16]  -0.005122  0.005123

tensortap stats gradient gradient/layers.1.mlp.weight
[1]
$ make_run nan-update update; tensortap nan update
3 NaN in parameter/layers.3.attn.weight at step 11
born by the optimizer's update of the step before
point 24 of 36 in the step; 1 of 36 sites have been non-finite since

           SITE                            TYPE             MIN       MAX
here       parameter/layers.3.attn.weight  f32[8,16]    -0.3036    0.3062  3 NaN
fed by     gradient/layers.3.attn.weight   f32[8,16]  -0.006584  0.006661
last time  parameter/layers.3.attn.weight  f32[8,16]     -0.303    0.3056

tensortap stats update parameter/layers.3.attn.weight
[1]
$ make_run late-nan late; tensortap nan late
2 NaN in activation/layers.1.mlp at step 10 000
born in the forward pass; everything recorded before it was finite
point 6 of 36 in the step; 11 of 36 sites have been non-finite since

           SITE                           TYPE             MIN       MAX
here       activation/layers.1.mlp        f32[8,16]  -0.003974  0.003973  2 NaN
fed by     activation/layers.1.attn       f32[8,16]  -0.003874  0.003925
fed by     activation/layers.0            f32[8,16]  -0.005928  0.005904
parameter  parameter/layers.1.mlp.weight  f32[8,16]     -6.225     6.242
last time  activation/layers.1.mlp        f32[8,16]  -0.003945  0.003927

tensortap stats late activation/layers.1.mlp
[1]
$ make_run rank1-nan ranks; tensortap nan ranks
2 NaN in activation/layers.0.mlp at step 7, rank 1
born in the forward pass; everything recorded before it was finite
rank 1, host example
point 3 of 36 in the step; 14 of 36 sites have been non-finite since

           SITE                           TYPE           MIN     MAX
here       activation/layers.0.mlp        f32[8,16]   -1.473   1.438  2 NaN
fed by     activation/layers.0.attn       f32[8,16]   -1.469   1.451
fed by     activation/embed               f32[8,16]  -0.7403   0.737
parameter  parameter/layers.0.mlp.weight  f32[8,16]  -0.3014  0.3012
last time  activation/layers.0.mlp        f32[8,16]   -1.521   1.502

tensortap stats ranks activation/layers.0.mlp
[1]
# Masks that are meant to be -inf.
$ make_run masked-inf masked; tensortap nan masked
all values of 36 sites in 50 steps are finite
4 sites hold only -Inf where masks do, such as activation/layers.0.attn.mask;
  not counted
$ tensortap nan masked --allow '*.mask'
all values of 36 sites in 50 steps are finite; 4 sites were left out by --allow
$ make_run masked-nan both; tensortap nan both --allow '*.mask'
2 NaN in activation/head at step 40
born in the forward pass; everything recorded before it was finite
point 18 of 40 in the step; 3 of 40 sites have been non-finite since
4 sites left out by --allow *.mask

           SITE                     STEP  TYPE           MIN     MAX
here       activation/head            40  f32[8,16]  -0.1642  0.1661  2 NaN
fed by     activation/layers.3        40  f32[8,16]  -0.9753   0.987
fed by     activation/layers.3.mlp    40  f32[8,16]  -0.6645   0.661
parameter  parameter/head.bias        40  f32[16]    -0.1073  0.1073
last time  activation/head            39  f32[8,16]  -0.1658  0.1682

tensortap stats both activation/head
[1]
$ tensortap nan both --allow '*.maks'
tensortap: no site matches '*.maks'; did you mean '*.mask'?
[2]
$ tensortap nan forward --json
{"schema":1,
"found":true,
"allowed":0,
"masked":0,
"damaged_bytes":0,
"unread_points":0,
"site":"activation/layers.2.attn",
"rank":0,
"birth":"forward",
"order":8,
"of":36,
"reached":9,
"together":0,
"float16_overflow":false,
"point":{"step":31,"call":0,"time":1767607200004324000,"phase":"train","dtype":"float32","count":128,"nan":2,"posinf":0,"neginf":0,"zeros":0,"min":-0.7614923715591431,"max":0.782709002494812,"absmax":0.782709002494812,"sum":1.704908162355423,"mean":0.013531017161550977,"std":0.4545255501237396,"l1":49.162139892578125,"l2":5.084019434071305,"rms":0.4529204492855993,"shape":[8,16]},
"fed_by":[{"role":"before","site":"activation/layers.1","step":31,"call":0,"time":1767607200004323000,"phase":"train","dtype":"float32","count":128,"nan":0,"posinf":0,"neginf":0,"zeros":0,"min":-1.1749926805496216,"max":1.153771162033081,"absmax":1.1749926805496216,"sum":3.6541305780410767,"mean":0.02854789514094591,"std":0.6783658207982584,"l1":75.98239040374756,"l2":7.6516143044222815,"rms":0.6763135452101229,"shape":[8,16]},
{"role":"before","site":"activation/layers.1.mlp","step":31,"call":0,"time":1767607200004322000,"phase":"train","dtype":"float32","count":128,"nan":0,"posinf":0,"neginf":0,"zeros":0,"min":-0.7811213731765747,"max":0.7664453983306885,"absmax":0.7811213731765747,"sum":-2.6026652455329895,"mean":-0.02033332223072648,"std":0.4340113261039083,"l1":47.972496032714844,"l2":4.896466214708135,"rms":0.43279055803386846,"shape":[8,16]},
{"role":"parameter","site":"parameter/layers.2.attn.weight","step":31,"call":0,"time":1767607200004338000,"phase":"train","dtype":"float32","count":128,"nan":0,"posinf":0,"neginf":0,"zeros":0,"min":-0.3112958073616028,"max":0.3053542673587799,"absmax":0.3112958073616028,"sum":1.4649142920970917,"mean":0.011444642907008529,"std":0.17941989291869617,"l1":19.866488695144653,"l2":2.02610109910189,"rms":0.17908372831805797,"shape":[8,16]},
{"role":"previous","site":"activation/layers.2.attn","step":30,"call":0,"time":1767607200004188000,"phase":"train","dtype":"float32","count":128,"nan":0,"posinf":0,"neginf":0,"zeros":0,"min":-0.7955566644668579,"max":0.7961117029190063,"absmax":0.7961117029190063,"sum":8.52584932744503,"mean":0.0666081978706643,"std":0.451322138860722,"l1":49.6546688079834,"l2":5.141666454885679,"rms":0.4544634021061324,"shape":[8,16]}],
"answers":[{"kind":"origin","severity":"error","likelihood":"certain","rule":"nonfinite","place":"activation/layers.2.attn","sentence":"activation/layers.2.attn: the first NaN at step 31; born in the forward pass; it reached 9 sites","detail":["born in the forward pass; everything recorded before it was finite"],"remedy":"","code":"","follows":"","follow_count":0,"sites":["activation/layers.2.attn"],"site_count":1,"first_step":31,"last_step":31,"call":0,"rank":-1,"ranks":[],"numbers":{"nan":2.0,"inf":0.0,"sites":9.0},"feeds":[{"role":"before","site":"activation/layers.1","step":31,"line":"float32[8, 16]  -1.175 … 1.154  mean 0.02855 ± 0.6784"},{"role":"before","site":"activation/layers.1.mlp","step":31,"line":"float32[8, 16]  -0.7811 … 0.7664  mean -0.02033 ± 0.434"},{"role":"parameter","site":"parameter/layers.2.attn.weight","step":31,"line":"float32[8, 16]  -0.3113 … 0.3054  mean 0.01144 ± 0.1794"},{"role":"previous","site":"activation/layers.2.attn","step":30,"line":"float32[8, 16]  -0.7956 … 0.7961  mean 0.06661 ± 0.4513"}],"next":["tensortap stats forward activation/layers.2.attn"]}]}
[1]
$ make_run overflow overflow; tensortap nan overflow
2 Inf in activation/layers.1.mlp at step 5
born in the forward pass; everything recorded before it was finite
float16 overflow: values beyond 65504 are Inf; bfloat16 and float32 hold larger ones
point 6 of 36 in the step; 11 of 36 sites have been non-finite since

           SITE                           STEP  TYPE          MIN    MAX
here       activation/layers.1.mlp           5  f16[8,16]  -31423  31282  2 Inf
fed by     activation/layers.1.attn          5  f16[8,16]  -31896  30600
fed by     activation/layers.0               5  f16[8,16]  -47968  47303
parameter  parameter/layers.1.mlp.weight     5  f16[8,16]   -5988   6004
last time  activation/layers.1.mlp           4  f16[8,16]  -33245  33276

tensortap stats overflow activation/layers.1.mlp
[1]
$ tensortap nan good --json
{"schema":1,
"found":false,
"allowed":0,
"masked":0,
"damaged_bytes":0,
"unread_points":0,
"answers":[{"kind":"note","severity":"fine","likelihood":"","rule":"finite","place":"","sentence":"all values of 36 sites in 50 steps are finite","detail":[],"remedy":"","code":"","follows":"","follow_count":0,"sites":[],"site_count":0,"first_step":-1,"last_step":-1,"call":-1,"rank":-1,"ranks":[],"numbers":{},"feeds":[],"next":[]}]}
$ tensortap nan
tensortap nan: name a run; 'tensortap ls' lists them
[2]
# What cannot be read is said, and nothing is claimed of it.
$ make_run good damaged; printf X | dd of=damaged/rank0.tap bs=1 seek=3000 conv=notrunc 2> /dev/null; printf X | dd of=damaged/rank0.tap bs=1 seek=95400 conv=notrunc 2> /dev/null; tensortap nan damaged
tensortap: the run is damaged, and what cannot be read may hold NaN or Inf; save the rest with: tensortap check --repair damaged
nothing has been recorded in this run
57536 bytes of the run cannot be read
  tensortap check damaged
  tensortap check --repair damaged
[3]
