# Every command that prints, without UTF-8, narrow and wide, into a pipe.
$ make_run nan-forward runs/bad; make_run good runs/good; make_run changed-layer runs/other
# env: LC_ALL=C
# env: COLUMNS=80
$ tensortap ls runs
RUN         VERDICT          LOSS  STARTED              STATE     STEPS     SIZE
runs/bad    1 error        0.3898  2026-01-05 10:00:00  finished     50  62.8 kB
runs/good   nothing found  0.3898  2026-01-05 10:00:00  finished     50  62.3 kB
runs/other  nothing found  0.3898  2026-01-05 10:00:00  finished     50  62.3 kB
$ tensortap stats runs/bad activation/layers.2.attn --step 30:32
activation/layers.2.attn  float32[8, 16]
STEP  CALL      MIN     MAX       MEAN     STD  NAN  INF
  30     0  -0.7956  0.7961    0.06661  0.4513    0    0
  31     0  -0.7615  0.7827    0.01353  0.4545    2    0
  32     0  -0.7685  0.7581  -0.006122  0.4663    0    0
$ tensortap nan runs/bad
2 NaN in activation/layers.2.attn at step 31
born in the forward pass; everything recorded before it was finite
point 8 of 36 in the step; 9 of 36 sites have been non-finite since

           SITE                            TYPE           MIN     MAX
here       activation/layers.2.attn        f32[8,16]  -0.7615  0.7827  2 NaN
fed by     activation/layers.1             f32[8,16]   -1.175   1.154
fed by     activation/layers.1.mlp         f32[8,16]  -0.7811  0.7664
parameter  parameter/layers.2.attn.weight  f32[8,16]  -0.3113  0.3054
last time  activation/layers.2.attn        f32[8,16]  -0.7956  0.7961

tensortap stats runs/bad activation/layers.2.attn
[1]
$ tensortap diff runs/good runs/other
they diverge at step 0 in activation/layers.2.attn
there rms is 1.208 against 1.22, off by 0.99% where rounding explains 1.2e-06
1800 points compared; sites: 35 identical, 0 within noise, 1 differ

WORST                     FROM STEP  AT  FIELD       A       B  OFF BY    FLOOR
activation/layers.2.attn          0  45  rms    0.3651  0.3687  0.0099  1.2e-06

tensortap report runs/good runs/other
tensortap stats runs/good activation/layers.2.attn --step 0:0
[1]
$ tensortap check runs/bad
runs/bad/rank0.tap  whole
  4 blocks, 1800 points, 0 values
$ tensortap top runs/bad | head -n 8
runs/bad  finished  steps 0 to 49  36 sites  1800 points  62.8 kB
train.py --lr 0.1
error    nonfinite  activation/layers.2.attn: the first NaN at step 31; born in
         the forward pass; it reached 9 sites
7353 steps a second

CHANGES MOST                   STEP       RMS  CHANGE  OVER STEPS
activation/layers.1.mlp          49     0.306   10.7%  #*+=---::....___
# env: COLUMNS=200
$ tensortap ls runs
RUN         VERDICT          LOSS  STARTED              STATE     STEPS     SIZE  COMMAND
runs/bad    1 error        0.3898  2026-01-05 10:00:00  finished     50  62.8 kB  train.py --lr 0.1
runs/good   nothing found  0.3898  2026-01-05 10:00:00  finished     50  62.3 kB  train.py --lr 0.1
runs/other  nothing found  0.3898  2026-01-05 10:00:00  finished     50  62.3 kB  train.py --lr 0.1
$ tensortap show runs/bad 'activation/layers.2*'
runs/bad  finished  steps 0 to 49  36 sites  1800 points  62.8 kB
train.py --lr 0.1

error    nonfinite  activation/layers.2.attn: the first NaN at step 31; born in the forward pass; it reached 9 sites
  what to do: tensortap health runs/bad

SITE         LATEST              MIN     MAX      MEAN     STD  RMS OVER STEPS
activation
`- layers.2  float32[8, 16]  -0.8557   0.863  0.009337  0.5102  #*+=--:::.!..___  not finite from step 31
   |- attn   float32[8, 16]  -0.5752   0.576   0.02977  0.3309  #*+=--::..!.____  nonfinite
   `- mlp    float32[8, 16]  -0.5713  0.5427  -0.01009  0.3331  #*+=--::..!..___  not finite from step 31
$ tensortap stats runs/bad activation/layers.2.attn --step 30:32
activation/layers.2.attn  float32[8, 16]
STEP  CALL      MIN     MAX       MEAN     STD     RMS     L1  ZEROS  NAN  INF
  30     0  -0.7956  0.7961    0.06661  0.4513  0.4545  49.65      0    0    0
  31     0  -0.7615  0.7827    0.01353  0.4545  0.4529  49.16      0    2    0
  32     0  -0.7685  0.7581  -0.006122  0.4663  0.4645   52.5      0    0    0
$ tensortap nan runs/bad
2 NaN in activation/layers.2.attn at step 31
born in the forward pass; everything recorded before it was finite
point 8 of 36 in the step; 9 of 36 sites have been non-finite since

           SITE                            STEP  TYPE           MIN     MAX     RMS
here       activation/layers.2.attn          31  f32[8,16]  -0.7615  0.7827  0.4529  2 NaN
fed by     activation/layers.1               31  f32[8,16]   -1.175   1.154  0.6763
fed by     activation/layers.1.mlp           31  f32[8,16]  -0.7811  0.7664  0.4328
parameter  parameter/layers.2.attn.weight    31  f32[8,16]  -0.3113  0.3054  0.1791
last time  activation/layers.2.attn          30  f32[8,16]  -0.7956  0.7961  0.4545

tensortap stats runs/bad activation/layers.2.attn
[1]
$ tensortap diff runs/good runs/other
they diverge at step 0 in activation/layers.2.attn
there rms is 1.208 against 1.22, off by 0.99% where rounding explains 1.2e-06
1800 points compared; sites: 35 identical, 0 within noise, 1 differ

WORST                     FROM STEP  AT  FIELD       A       B  OFF BY    FLOOR
activation/layers.2.attn          0  45  rms    0.3651  0.3687  0.0099  1.2e-06

tensortap report runs/good runs/other
tensortap stats runs/good activation/layers.2.attn --step 0:0
[1]
# env: COLUMNS=40
$ tensortap ls runs
RUN         VERDICT          LOSS  STA..
runs/bad    1 error        0.3898  fin..
runs/good   nothing found  0.3898  fin..
runs/other  nothing found  0.3898  fin..
$ tensortap show runs/bad 'activation/layers.2*'
runs/bad  finished  steps 0 to 49  36 sites  1800 points  62.8 kB
train.py --lr 0.1

error    nonfinite  activation/layers.2.
         attn: the first NaN at step 31;
         born in the forward pass; it
         reached 9 sites
  what to do: tensortap health runs/bad

SITE         LATEST       MIN     MAX ..
activation
`- layers.2  f32[8..  -0.8557   0.863 ..
   |- attn   f32[8..  -0.5752   0.576 ..
   `- mlp    f32[8..  -0.5713  0.5427 ..
$ tensortap nan runs/bad
2 NaN in activation/layers.2.attn at step 31
born in the forward pass; everything
  recorded before it was finite
point 8 of 36 in the step; 9 of 36 sites have been non-finite since

           SITE              TYPE     ..
here       acti..ers.2.attn  f32..  -0..
fed by     acti..n/layers.1  f32..   -..
fed by     acti..yers.1.mlp  f32..  -0..
parameter  para..ttn.weight  f32..  -0..
last time  acti..ers.2.attn  f32..  -0..

tensortap stats runs/bad activation/layers.2.attn
[1]
# On a terminal, in colour, narrow and wide.
# env: LC_ALL=C.UTF-8
# env: COLUMNS=
$ for w in 80 200; do script -qec "stty rows 30 cols $w; tensortap ls runs" /dev/null < /dev/null; done | tr -d '\r' | sed 's/\x1b/^/g'
^[2mRUN^[0m         ^[2mVERDICT^[0m          ^[2mLOSS^[0m  ^[2mSTARTED^[0m              ^[2mSTATE^[0m     ^[2mSTEPS^[0m     ^[2mSIZE^[0m
runs/bad    ^[1;31m1 error^[0m        0.3898  ^[2m2026-01-05 10:00:00^[0m  ^[2mfinished^[0m     50  62.8 kB
runs/good   ^[32mnothing found^[0m  0.3898  ^[2m2026-01-05 10:00:00^[0m  ^[2mfinished^[0m     50  62.3 kB
runs/other  ^[32mnothing found^[0m  0.3898  ^[2m2026-01-05 10:00:00^[0m  ^[2mfinished^[0m     50  62.3 kB
^[2mRUN^[0m         ^[2mVERDICT^[0m          ^[2mLOSS^[0m  ^[2mSTARTED^[0m              ^[2mSTATE^[0m     ^[2mSTEPS^[0m     ^[2mSIZE^[0m  ^[2mCOMMAND^[0m
runs/bad    ^[1;31m1 error^[0m        0.3898  ^[2m2026-01-05 10:00:00^[0m  ^[2mfinished^[0m     50  62.8 kB  train.py --lr 0.1
runs/good   ^[32mnothing found^[0m  0.3898  ^[2m2026-01-05 10:00:00^[0m  ^[2mfinished^[0m     50  62.3 kB  train.py --lr 0.1
runs/other  ^[32mnothing found^[0m  0.3898  ^[2m2026-01-05 10:00:00^[0m  ^[2mfinished^[0m     50  62.3 kB  train.py --lr 0.1
$ for w in 80 200; do script -qec "stty rows 30 cols $w; tensortap stats runs/bad activation/layers.2.attn --step 31" /dev/null < /dev/null; done | tr -d '\r' | sed 's/\x1b/^/g'
activation/layers.2.attn  ^[36mfloat32[8, 16]^[0m
^[2mSTEP^[0m  ^[2mCALL^[0m      ^[2mMIN^[0m     ^[2mMAX^[0m     ^[2mMEAN^[0m     ^[2mSTD^[0m  ^[2mNAN^[0m  ^[2mINF^[0m
  31     ^[2m0^[0m  -0.7615  0.7827  0.01353  0.4545    ^[1;31m2^[0m    ^[2m0^[0m
activation/layers.2.attn  ^[36mfloat32[8, 16]^[0m
^[2mSTEP^[0m  ^[2mCALL^[0m      ^[2mMIN^[0m     ^[2mMAX^[0m     ^[2mMEAN^[0m     ^[2mSTD^[0m     ^[2mRMS^[0m     ^[2mL1^[0m  ^[2mZEROS^[0m  ^[2mNAN^[0m  ^[2mINF^[0m
  31     ^[2m0^[0m  -0.7615  0.7827  0.01353  0.4545  0.4529  49.16      0    ^[1;31m2^[0m    ^[2m0^[0m
$ for w in 80 200; do script -qec "stty rows 30 cols $w; tensortap nan runs/bad" /dev/null < /dev/null; done | tr -d '\r' | sed 's/\x1b/^/g'
^[1;31m2 NaN^[0m in ^[1;31mactivation/layers.2.attn^[0m at step 31
^[2mborn in the forward pass; everything recorded before it was finite^[0m
^[2mpoint 8 of 36 in the step; 9 of 36 sites have been non-finite since^[0m

           ^[2mSITE^[0m                            ^[2mTYPE^[0m           ^[2mMIN^[0m     ^[2mMAX^[0m
^[2mhere^[0m       ^[1;31mactivation/layers.2.attn^[0m        ^[36mf32[8,16]^[0m  -0.7615  0.7827  ^[1;31m2 NaN^[0m
^[2mfed by^[0m     activation/layers.1             ^[36mf32[8,16]^[0m   -1.175   1.154
^[2mfed by^[0m     activation/layers.1.mlp         ^[36mf32[8,16]^[0m  -0.7811  0.7664
^[2mparameter^[0m  parameter/layers.2.attn.weight  ^[36mf32[8,16]^[0m  -0.3113  0.3054
^[2mlast time^[0m  activation/layers.2.attn        ^[36mf32[8,16]^[0m  -0.7956  0.7961

tensortap stats runs/bad activation/layers.2.attn
^[1;31m2 NaN^[0m in ^[1;31mactivation/layers.2.attn^[0m at step 31
^[2mborn in the forward pass; everything recorded before it was finite^[0m
^[2mpoint 8 of 36 in the step; 9 of 36 sites have been non-finite since^[0m

           ^[2mSITE^[0m                            ^[2mSTEP^[0m  ^[2mTYPE^[0m           ^[2mMIN^[0m     ^[2mMAX^[0m     ^[2mRMS^[0m
^[2mhere^[0m       ^[1;31mactivation/layers.2.attn^[0m          31  ^[36mf32[8,16]^[0m  -0.7615  0.7827  0.4529  ^[1;31m2 NaN^[0m
^[2mfed by^[0m     activation/layers.1               31  ^[36mf32[8,16]^[0m   -1.175   1.154  0.6763
^[2mfed by^[0m     activation/layers.1.mlp           31  ^[36mf32[8,16]^[0m  -0.7811  0.7664  0.4328
^[2mparameter^[0m  parameter/layers.2.attn.weight    31  ^[36mf32[8,16]^[0m  -0.3113  0.3054  0.1791
^[2mlast time^[0m  activation/layers.2.attn          30  ^[36mf32[8,16]^[0m  -0.7956  0.7961  0.4545

tensortap stats runs/bad activation/layers.2.attn
$ for w in 80 200; do script -qec "stty rows 30 cols $w; tensortap diff runs/good runs/other" /dev/null < /dev/null; done | tr -d '\r' | sed 's/\x1b/^/g'
^[33mthey diverge at step 0 in activation/layers.2.attn^[0m
^[2mthere rms is 1.208 against 1.22, off by 0.99% where rounding explains 1.2e-06^[0m
^[2m1800 points compared; sites: 35 identical, 0 within noise, 1 differ^[0m

^[2mWORST^[0m                     ^[2mFROM STEP^[0m  ^[2mAT^[0m  ^[2mFIELD^[0m       ^[2mA^[0m       ^[2mB^[0m  ^[2mOFF BY^[0m    ^[2mFLOOR^[0m
activation/layers.2.attn          0  45  rms    0.3651  0.3687  ^[1;31m0.0099^[0m  ^[2m1.2e-06^[0m

tensortap report runs/good runs/other
tensortap stats runs/good activation/layers.2.attn --step 0:0
^[33mthey diverge at step 0 in activation/layers.2.attn^[0m
^[2mthere rms is 1.208 against 1.22, off by 0.99% where rounding explains 1.2e-06^[0m
^[2m1800 points compared; sites: 35 identical, 0 within noise, 1 differ^[0m

^[2mWORST^[0m                     ^[2mFROM STEP^[0m  ^[2mAT^[0m  ^[2mFIELD^[0m       ^[2mA^[0m       ^[2mB^[0m  ^[2mOFF BY^[0m    ^[2mFLOOR^[0m
activation/layers.2.attn          0  45  rms    0.3651  0.3687  ^[1;31m0.0099^[0m  ^[2m1.2e-06^[0m

tensortap report runs/good runs/other
tensortap stats runs/good activation/layers.2.attn --step 0:0
$ for w in 80 200; do script -qec "stty rows 12 cols $w; tensortap top --once runs/bad" /dev/null < /dev/null; done | tr -d '\r' | sed 's/\x1b/^/g'
runs/bad  ^[32mfinished^[0m  steps 0 to 49  36 sites  1800 points  62.8 kB
^[2mtrain.py --lr 0.1^[0m
^[1;31merror  ^[0m^[2m  nonfinite^[0m  activation/layers.2.attn: the first NaN at step 31; born in
         the forward pass; it reached 9 sites
7353 steps a second

^[2mCHANGES MOST^[0m             ^[2mSTEP^[0m      ^[2mRMS^[0m  ^[2mCHANGE^[0m  ^[2mOVER STEPS^[0m
activation/layers.1.mlp    49    0.306   10.7%  ^[32m█▇▆▅▄▄▄▃▃▂▂▂▂▁▁▁^[0m
activation/(root)          49  0.08692    9.6%  ^[32m█▆▆▅▄▄▃▃▃▂!▂▂▁▁▁^[0m
activation/head            49  0.08043    8.3%  ^[32m█▇▆▅▄▄▃▃▃▂!▂▁▁▁▁^[0m
runs/bad  ^[32mfinished^[0m  steps 0 to 49  36 sites  1800 points  62.8 kB
^[2mtrain.py --lr 0.1^[0m
^[1;31merror  ^[0m^[2m  nonfinite^[0m  activation/layers.2.attn: the first NaN at step 31; born in the forward pass; it reached 9 sites
7353 steps a second

^[2mCHANGES MOST^[0m             ^[2mSTEP^[0m       ^[2mRMS^[0m  ^[2mCHANGE^[0m  ^[2mOVER STEPS^[0m
activation/layers.1.mlp    49     0.306   10.7%  ^[32m█▇▆▅▄▄▄▃▃▂▂▂▂▁▁▁^[0m
activation/(root)          49   0.08692    9.6%  ^[32m█▆▆▅▄▄▃▃▃▂!▂▂▁▁▁^[0m
activation/head            49   0.08043    8.3%  ^[32m█▇▆▅▄▄▃▃▃▂!▂▁▁▁▁^[0m
gradient/embed.weight      49  0.001603    8.2%  ^[32m█▆▅▅▄▃▃▃▂▂▂▂▁▁▁▁^[0m
$ script -qec "tensortap check runs/bad" /dev/null < /dev/null | tr -d '\r' | sed 's/\x1b/^/g'
runs/bad/rank0.tap  ^[32mwhole^[0m
  4 blocks, 1800 points, 0 values
$ script -qec "NO_COLOR=1 tensortap nan runs/bad; TERM=dumb tensortap ls runs" /dev/null < /dev/null | tr -d '\r' | grep -c "$(printf '\033')"
0
[1]
$ script -qec "tensortap nan runs/bad --json" /dev/null < /dev/null | tr -d '\r' | head -n 1
{"schema":1,
# Nobody reads any more, and nowhere to write.
$ for c in "ls runs" "stats runs/bad *" "nan runs/bad" "diff runs/good runs/bad" "check runs/bad" "export runs/bad --to csv -o -"; do set -f; tensortap $c | head -n 1 > /dev/null; done
$ set -f; for c in "ls runs" "stats runs/bad *" "nan runs/bad" "diff runs/good runs/bad" "check runs/bad" "export runs/bad --to csv -o -" "rm --yes --json runs/other"; do tensortap $c > /dev/full; echo "$? $c"; done
tensortap: cannot write the output: No space left on device
3 ls runs
tensortap: cannot write the output: No space left on device
3 stats runs/bad *
tensortap: cannot write the output: No space left on device
3 nan runs/bad
tensortap: cannot write the output: No space left on device
3 diff runs/good runs/bad
tensortap: cannot write the output: No space left on device
3 check runs/bad
tensortap: cannot write the output: No space left on device
3 export runs/bad --to csv -o -
tensortap: cannot write the output: No space left on device
3 rm --yes --json runs/other
