# A tree of sites: what is odd first, repeated layers folded.
$ make_run good good
$ make_run nan-forward bad
# env: COLUMNS=80
$ tensortap show good
good  finished  steps 0 to 49  36 sites  1800 points  95.2 kB
train.py --lr 0.1

▲ gradient/head.bias      all zero
▲ parameter/embed.weight  unchanged

SITE               LATEST              MEAN       STD  RMS
activation
├─ embed           f32[8,16]       -0.01049    0.1715  █▆▄▃▂▂▁▁
├─ layers.0-3      4× f32[8,16]     0.01696    0.5017  █▆▄▃▂▂▁▁
│  ├─ attn         4× f32[8,16]   -0.007258    0.3331  █▆▄▃▂▂▁▁
│  └─ mlp          4× f32[8,16]    0.008565     0.327  █▆▅▃▂▂▁▁
├─ head            f32[8,16]        0.01192   0.07985  █▆▄▃▂▂▁▁
└─ (root)          f32[8,16]       0.003694   0.08719  █▆▄▃▃▂▂▁
loss               number            0.3898            █▅▄▃▂▂▁▁
parameter
├─ embed.weight    f32[8,16]      -0.007107    0.1753  ▄▄▄▄▄▄▄▄  unchanged
├─ layers.0-3
│  ├─ attn.weight  4× f32[8,16]     0.01347    0.1905  ▁▂▃▄▅▆▇█
│  └─ mlp.weight   4× f32[8,16]    0.004246    0.1922  ▁▂▃▄▅▆▇█
└─ head.bias       f32[16]         0.005909   0.06717  ▁▂▃▄▅▆▇█
gradient
├─ embed.weight    f32[8,16]      -0.000198  0.001597  █▅▄▃▂▂▁▁
├─ layers.0-3
│  ├─ attn.weight  4× f32[8,16]  -0.0001555  0.001707  █▆▄▃▂▂▁▁
│  └─ mlp.weight   4× f32[8,16]  -0.0001275  0.001707  █▆▄▃▂▂▁▁
└─ head.bias       f32[16]                0         0  ▄▄▄▄▄▄▄▄  all zero
# env: COLUMNS=200
$ tensortap show bad 'activation/*,loss'
bad  finished  steps 0 to 49  36 sites  1800 points  95.7 kB
train.py --lr 0.1

▲ activation/layers.2.attn  2 NaN from step 31
▲ activation/layers.2.mlp   64 NaN from step 31
▲ activation/layers.2       64 NaN from step 31
▲ activation/layers.3.attn  64 NaN from step 31
▲ activation/layers.3.mlp   64 NaN from step 31
▲ activation/layers.3       64 NaN from step 31
▲ activation/head           64 NaN from step 31
▲ activation/(root)         64 NaN from step 31
▲ loss                      not finite from step 31
  where the first was born: tensortap nan bad

SITE           LATEST                 MIN     MAX       MEAN      STD  RMS OVER STEPS
activation
├─ embed       float32[8, 16]     -0.2893  0.2873   -0.01049   0.1715  █▇▆▅▄▄▃▃▂▂▂▂▂▁▁▁
├─ layers.0-3  4× float32[8, 16]  -0.8589   0.863    0.01696   0.5017  █▇▆▅▄▄▃▃▃▂!▂▂▁▁▁  not finite
│  ├─ attn     4× float32[8, 16]  -0.5793  0.5769  -0.007258   0.3331  █▇▆▅▄▄▃▃▂▂!▂▁▁▁▁  not finite
│  └─ mlp      4× float32[8, 16]  -0.5759  0.5735   0.008565    0.327  █▇▆▅▄▄▃▃▂▂!▂▂▁▁▁  not finite
├─ head        float32[8, 16]     -0.1392  0.1442    0.01192  0.07985  █▇▆▅▄▄▃▃▃▂!▂▁▁▁▁  not finite
└─ (root)      float32[8, 16]     -0.1421  0.1448   0.003694  0.08719  █▆▆▅▄▄▃▃▃▂!▂▂▁▁▁  not finite
loss           number                                 0.3898           █▆▅▄▃▃▃▂▂▂!▁▁▁▁▁  not finite
$ tensortap show bad 'activation/layers.2*' --all
bad  finished  steps 0 to 49  36 sites  1800 points  95.7 kB
train.py --lr 0.1

▲ activation/layers.2.attn  2 NaN from step 31
▲ activation/layers.2.mlp   64 NaN from step 31
▲ activation/layers.2       64 NaN from step 31
  where the first was born: tensortap nan bad

SITE         LATEST              MIN     MAX      MEAN     STD  RMS OVER STEPS
activation
└─ layers.2  float32[8, 16]  -0.8557   0.863  0.009337  0.5102  █▇▆▅▄▄▃▃▃▂!▂▂▁▁▁  not finite
   ├─ attn   float32[8, 16]  -0.5752   0.576   0.02977  0.3309  █▇▆▅▄▄▃▃▂▂!▂▁▁▁▁  not finite
   └─ mlp    float32[8, 16]  -0.5713  0.5427  -0.01009  0.3331  █▇▆▅▄▄▃▃▂▂!▂▂▁▁▁  not finite
# env: COLUMNS=80
# env: LC_ALL=C
$ tensortap show good 'activation/*'
good  finished  steps 0 to 49  36 sites  1800 points  95.2 kB
train.py --lr 0.1

SITE           LATEST             MEAN      STD  RMS
activation
|- embed       f32[8,16]      -0.01049   0.1715  #+-:..__
|- layers.0-3  4x f32[8,16]    0.01696   0.5017  #+-:..__
|  |- attn     4x f32[8,16]  -0.007258   0.3331  #+-:..__
|  `- mlp      4x f32[8,16]   0.008565    0.327  #+=:..__
|- head        f32[8,16]       0.01192  0.07985  #+-:..__
`- (root)      f32[8,16]      0.003694  0.08719  #+-::.._
# env: LC_ALL=C.UTF-8
$ tensortap show good --json 'loss'
{"run":"good",
"state":"finished",
"command":"train.py --lr 0.1",
"first_step":0,
"last_step":49,
"points":1800,
"bytes":95232,
"sites":[{"site":"loss","points":50,"anomalies":[],"latest":{"step":49,"call":0,"time":1767607200006780000,"phase":"none","value":0.38983050847457623}}]}
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
tensortap: this run has no rank 3; it has 1 file
[2]
$ tensortap show good | head -n 1
good  finished  steps 0 to 49  36 sites  1800 points  95.2 kB
$ tensortap show good > /dev/full
tensortap: cannot write the output: No space left on device
[3]
# A terminal: coloured, limited to its lines; NO_COLOR turns colour off.
$ script -qec 'stty rows 14 cols 80; tensortap show bad' /dev/null < /dev/null | tr -d '\r' | sed 's/\x1b/^/g'
bad  ^[32mfinished^[0m  steps 0 to 49  36 sites  1800 points  95.7 kB
^[2mtrain.py --lr 0.1^[0m

^[2m▲ ^[0mactivation/layers.2.attn  ^[1;31m2 NaN from step 31^[0m
^[2m▲ ^[0mactivation/layers.2.mlp   ^[1;31m64 NaN from step 31^[0m
^[2m▲ ^[0mactivation/layers.2       ^[1;31m64 NaN from step 31^[0m
^[2m▲ ^[0mactivation/layers.3.attn  ^[1;31m64 NaN from step 31^[0m
^[2m▲ ^[0mactivation/layers.3.mlp   ^[1;31m64 NaN from step 31^[0m
  and 6 more that are odd; --all lists them
  ^[2mwhere the first was born: tensortap nan bad^[0m

^[2mSITE^[0m           ^[2mLATEST^[0m             ^[2mMEAN^[0m     ^[2mSTD^[0m  ^[2mRMS^[0m
activation
^[2m├─ ^[0membed       ^[36mf32[8,16]^[0m      -0.01049  0.1715  ^[32m█▆▄▃▂▂▁▁^[0m
^[2m├─ ^[0mlayers.0-3  ^[36m4× f32[8,16]^[0m    0.01696  0.5017  ^[1;31m█▆▄▃▃!▁▁^[0m  ^[1;31mnot finite^[0m
^[2m│  ├─ ^[0mattn     ^[36m4× f32[8,16]^[0m  -0.007258  0.3331  ^[1;31m█▆▄▃▂!▁▁^[0m  ^[1;31mnot finite^[0m
... 16 more lines; --all shows them, or give a pattern such as 'activation/*'
$ script -qec 'stty rows 14 cols 80; NO_COLOR=1 tensortap show good loss' /dev/null < /dev/null | tr -d '\r' | sed 's/\x1b/^/g'
good  finished  steps 0 to 49  36 sites  1800 points  95.2 kB
train.py --lr 0.1

SITE  LATEST    MEAN  STD  RMS
loss  number  0.3898       █▅▄▃▂▂▁▁
