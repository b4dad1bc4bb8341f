# One picture of a run, where nobody watches.
# env: COLUMNS=80
$ make_run nan-forward run
$ tensortap top run | head -n 9
run  finished  steps 0 to 49  36 sites  1800 points  62.8 kB
train.py --lr 0.1
error    nonfinite  activation/layers.2.attn: the first NaN at step 31; born in
         the forward pass; it reached 9 sites
7353 steps a second

CHANGES MOST                   STEP       RMS  CHANGE  OVER STEPS
activation/layers.1.mlp          49     0.306   10.7%  █▇▆▅▄▄▄▃▃▂▂▂▂▁▁▁
activation/(root)                49   0.08692    9.6%  █▆▆▅▄▄▃▃▃▂!▂▂▁▁▁
$ tensortap top run --once | head -n 1
run  finished  steps 0 to 49  36 sites  1800 points  62.8 kB
$ tensortap top run --json | head -n 6
{"schema":1,
"run":"run",
"state":"finished",
"first_step":0,
"last_step":49,
"steps_per_second":7353.0117936306715,
$ tensortap top run --json | tail -n +7 | head -c 300
"cost":"NaN",
"verdict":"1 error",
"healthy":false,
"rules":38,
"findings":[{"kind":"origin","severity":"error","likelihood":"certain","rule":"nonfinite","place":"layers.2.attn","sentence":"activation/layers.2.attn: the first NaN at step 31; born in the forward pass; it reached 9 sites","detail":["b
\ no newline
# env: LC_ALL=C
$ tensortap top run | sed -n 5,7p
7353 steps a second

CHANGES MOST                   STEP       RMS  CHANGE  OVER STEPS
# env: COLUMNS=200
$ tensortap top run | sed -n 5,7p

CHANGES MOST                   STEP       RMS  CHANGE  OVER STEPS
activation/layers.1.mlp          49     0.306   10.7%  #*+=---::....___
$ tensortap top
tensortap top: name a run; 'tensortap ls' lists them
[2]
$ tensortap top run run
tensortap top: 'run' is one too many; name one run
[2]
$ tensortap top nowhere
tensortap: no run at 'nowhere'; 'tensortap ls FOLDER' lists runs
[3]
$ tensortap top run > /dev/full
tensortap: cannot write the output: No space left on device
[3]
