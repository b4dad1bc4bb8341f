# One picture of a run, where nobody watches.
# env: COLUMNS=80
$ make_run nan-forward run
$ tensortap top run | head -n 9
run  finished  steps 0 to 49  36 sites  1800 points  95.7 kB
train.py --lr 0.1
7353 steps a second

CHANGES MOST                   STEP       RMS  CHANGE  OVER STEPS
activation/layers.1.mlp          49     0.306   10.7%  █▇▆▅▄▄▄▃▃▂▂▂▂▁▁▁
activation/(root)                49   0.08692    9.6%  █▆▆▅▄▄▃▃▃▂!▂▂▁▁▁
activation/head                  49   0.08043    8.3%  █▇▆▅▄▄▃▃▃▂!▂▁▁▁▁
gradient/embed.weight            49  0.001603    8.2%  █▆▅▅▄▃▃▃▂▂▂▂▁▁▁▁
$ tensortap top run --once | head -n 1
run  finished  steps 0 to 49  36 sites  1800 points  95.7 kB
$ tensortap top run --json | head -n 6
{"run":"run",
"state":"finished",
"first_step":0,
"last_step":49,
"steps_per_second":7353.0117936306715,
"cost":"NaN",
$ tensortap top run --json | tail -n +7 | head -c 300
"sites":[{"site":"activation/layers.1.mlp","change":0.10702530881627711,"latest":{"step":49,"call":0,"time":1767607200006770000,"phase":"train","dtype":"float32","count":128,"nan":0,"posinf":0,"neginf":0,"zeros":0,"min":-0.5655921101570129,"max":0.5677641034126282,"absmax":0.5677641034126282,"sum":4
\ no newline
# env: LC_ALL=C
$ tensortap top run | sed -n 5,7p
CHANGES MOST                   STEP       RMS  CHANGE  OVER STEPS
activation/layers.1.mlp          49     0.306   10.7%  #*+=---::....___
activation/(root)                49   0.08692    9.6%  #++=--:::.!..___
# env: COLUMNS=200
$ tensortap top run | sed -n 5,7p
CHANGES MOST                   STEP       RMS  CHANGE  OVER STEPS
activation/layers.1.mlp          49     0.306   10.7%  #*+=---::....___
activation/(root)                49   0.08692    9.6%  #++=--:::.!..___
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
