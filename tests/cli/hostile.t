# Names that would repaint a terminal, or are nothing at all, are shown and not obeyed.
# env: COLUMNS=80
$ make_run hostile run
$ tensortap show run
run  finished  steps 0 to 2  12 sites  36 points  4.9 kB
train.py --lr 0.1

SITE                   LATEST         MEAN     STD  RMS
activation
├─ \x1b[31mred\x1b[2J  f32[8,16]  -0.02337  0.5005  ██▁
├─ new\nline           f32[8,16]    0.0203  0.5367  █▇▁
├─ \xff\xfe not UTF-8  f32[8,16]  -0.03696  0.5283  █▂▁
├─ a..b                f32[8,16]   -0.1129  0.5503  ▁█▇
├─ /x                  f32[8,16]   0.04127  0.5241  ▄█▁
└─ \x07bell            f32[8,16]  -0.03636  0.5146  ▇█▁
tab\there              f32[8,16]   0.06101  0.5392  █▃▁
right\u202eleft        f32[8,16]   0.07486  0.5107  █▄▁
wide 漢字 名前         f32[8,16]  -0.09922  0.5311  ██▁
(no name)              f32[8,16]  -0.03277  0.4937  █▆▁
%s%n%d                 f32[8,16]  -0.03976  0.5165  █▆▁
a,b*c?                 f32[8,16]   -0.1224  0.4994  █▃▁
$ tensortap show run --json | tr -d '\n' | od -An -c | grep -c 033
0
[1]
$ tensortap stats run '*red*' --step 0
activation/\x1b[31mred\x1b[2J  float32[8, 16]
STEP  CALL      MIN     MAX       MEAN     STD  NAN  INF
   0     0  -0.9895  0.9993  0.0009907  0.5569    0    0
$ tensortap show run '*rde*'
tensortap: no site matches '*rde*'; 'tensortap show RUN' lists them, * stands for anything
[2]
$ tensortap show run "$(printf '\033[31mred')"
tensortap: no site matches '\x1b[31mred'; did you mean 'activation/\x1b[31mred\x1b[2J'?
[2]
$ tensortap ls "$(printf '\033[31mred')"
tensortap: \x1b[31mred: No such file or directory; give a folder that holds runs
[3]
$ tensortap export run '*' --to npy -o arrays
tensortap: no values were kept for these sites; record them with keep="value", or export statistics with --to csv
[2]
$ tensortap diff run run
identical
36 points compared; sites: 12 identical, 0 within noise, 0 differ
# env: LC_ALL=C
$ tensortap show run 'wide*,*red*'
run  finished  steps 0 to 2  12 sites  36 points  4.9 kB
train.py --lr 0.1

SITE                            LATEST         MEAN     STD  RMS
activation
`- \x1b[31mred\x1b[2J           f32[8,16]  -0.02337  0.5005  ##_
wide \u6f22\u5b57 \u540d\u524d  f32[8,16]  -0.09922  0.5311  ##_
