# Names that would repaint a terminal, or are nothing at all, are shown and not obeyed.
# env: COLUMNS=80
$ make_run hostile run
$ tensortap show run
run  finished  steps 0 to 2  12 sites  36 points  4.0 kB
train.py --lr 0.1
nothing found in 3 steps, too few for most rules; 22 of 38 rules had no data: no
         optimizer, no loss, no inputs of a model

SITE                   LATEST         MIN     MAX      MEAN     STD  RMS
activation
├─ \x1b[31mred\x1b[2J  f32[8,16]  -0.9088   0.842  -0.02337  0.5005  ██▁
├─ new\nline           f32[8,16]  -0.8992   0.903    0.0203  0.5367  █▇▁
├─ \xff\xfe not UTF-8  f32[8,16]  -0.8701  0.9041  -0.03696  0.5283  █▂▁
├─ a..b                f32[8,16]  -0.8942  0.9047   -0.1129  0.5503  ▁█▇
├─ /x                  f32[8,16]  -0.8805  0.9042   0.04127  0.5241  ▄█▁
└─ \x07bell            f32[8,16]  -0.8767  0.8899  -0.03636  0.5146  ▇█▁
tab\there              f32[8,16]  -0.8902  0.8968   0.06101  0.5392  █▃▁
right\u202eleft        f32[8,16]  -0.8921  0.9053   0.07486  0.5107  █▄▁
wide 漢字 名前         f32[8,16]  -0.9016  0.9055  -0.09922  0.5311  ██▁
(no name)              f32[8,16]  -0.9012  0.8756  -0.03277  0.4937  █▆▁
%s%n%d                 f32[8,16]  -0.9018  0.9087  -0.03976  0.5165  █▆▁
a,b*c?                 f32[8,16]  -0.9039  0.8109   -0.1224  0.4994  █▃▁
$ tensortap show run --json | tr -d '\n' | od -An -c | grep -c 033
0
[1]
$ tensortap show run --json | grep -o '"right[^"]*"' | head -n 1
"right\u202eleft"
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
run  finished  steps 0 to 2  12 sites  36 points  4.0 kB
train.py --lr 0.1

SITE                            LATEST         MIN     MAX      MEAN  RMS
activation
`- \x1b[31mred\x1b[2J           f32[8,16]  -0.9088   0.842  -0.02337  ##_
wide \u6f22\u5b57 \u540d\u524d  f32[8,16]  -0.9016  0.9055  -0.09922  ##_
# Numbers that no tensor has, in every field.
# env: LC_ALL=C.UTF-8
# env: COLUMNS=100
$ make_run absurd absurd
$ tensortap ls absurd --json | sed 's/"started":[0-9]*/"started":0/'
{"schema":1,
"runs":[{"run":"absurd","started":0,"command":"\\x1b[31m","state":"finished","first_step":-9223372036854775807,"last_step":9223372036854775806,"points":12,"ranks":1,"bytes":2112,"verdict":"1 error","loss":null,"loss_name":null,"lr":null,"batch":null,"stride":1,"values":{}}]}
$ tensortap show absurd
absurd  finished  steps -9223372036854775807 to 9 223 372 036 854 775 806  6 sites  12 points  2.1 kB
\x1b[31m

error    nonfinite  activation/negative: the first Inf at step -9223372036854775807; born in the
         forward pass; it reached 3 sites
  what to do: tensortap health absurd

SITE         LATEST        MIN        MAX  RMS OVER STEPS
activation
├─ type      ?[9223…         1          0  ▄▄
├─ negative  ?[9223…         0          0                  nonfinite
├─ huge      float6…  1.7e+308  -1.7e+308  !!              not finite from step -9223372036854775807
└─ nan       float6…
parameter
└─ call      float6…         0          0  ▄▄              eval
number       number…                       !!              not finite from step -9223372036854775807
$ tensortap nan absurd
a value that is not finite in activation/negative at step -9 223 372 036 854 775 807
born in the forward pass; everything recorded before it was finite
point 2 of 6 in the step; 3 of 6 sites have been non-finite since

        SITE                 TYPE                                                           MIN  MAX
here    activation/negative  ?[9223372036854775803,9223372036854775807,922337203685477580…    0    0
fed by  activation/type      ?[9223372036854775803,9223372036854775807,922337203685477580…    1    0

tensortap stats absurd activation/negative
[1]
$ tensortap stats absurd 'activation/huge,number'
activation/huge  float64[9223372036854775803, 9223372036854775807, 9223372036854775807]
                      STEP  CALL       MIN        MAX  MEAN  L1                      ZEROS         …
-9 223 372 036 854 775 807     0  1.7e+308  -1.7e+308     0   0  1 152 921 504 606 846 976  1 152 9…
 9 223 372 036 854 775 806     0  1.7e+308  -1.7e+308     0   0  1 152 921 504 606 846 976  1 152 9…

number  number
                      STEP  CALL  VALUE
-9 223 372 036 854 775 807     0   -inf
 9 223 372 036 854 775 806     0   -inf
$ tensortap diff absurd absurd
identical
12 points compared; sites: 6 identical, 0 within noise, 0 differ
$ tensortap top absurd | head -n 7
absurd  finished  steps -9223372036854775807 to 9 223 372 036 854 775 806  6 sites  12 points  2.1 kB
\x1b[31m
error    nonfinite  activation/negative: the first Inf at step -9223372036854775807; born in the
         forward pass; it reached 3 sites
speed not known

CHANGES MOST                          STEP   RMS      CHANGE  OVER STEPS
$ tensortap check absurd
absurd/rank0.tap  whole
  4 blocks, 12 points, 0 values
$ tensortap export absurd --to csv -o - | wc -l
13
$ for c in show nan top; do tensortap $c absurd --json; done | tr -d '\n' | od -An -c | grep -c 033
0
[1]
