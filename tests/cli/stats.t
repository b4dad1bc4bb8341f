# Statistics, a line for each point.
# env: COLUMNS=80
$ make_run nan-forward run
$ tensortap stats run loss --step 2:4
loss  number
STEP  CALL  VALUE
   2     0  1.917
   3     0  1.769
   4     0  1.643
$ tensortap stats run 'activation/layers.2.*' --step 30:32
activation/layers.2.attn  float32[8, 16]
STEP  CALL      MIN     MAX       MEAN     STD  NAN  INF
  30     0  -0.7956  0.7961    0.06661  0.4513    0    0
  31     0  -0.7615  0.7827    0.01353  0.4545    2    0
  32     0  -0.7685  0.7581  -0.006122  0.4663    0    0

activation/layers.2.mlp  float32[8, 16]
STEP  CALL      MIN     MAX      MEAN     STD  NAN  INF
  30     0  -0.7729  0.7945   0.09422  0.4228    0    0
  31     0  -0.7599  0.7547  -0.01136  0.4931   64    0
  32     0  -0.7661  0.7639  -0.04593  0.4422    0    0
# env: COLUMNS=200
$ tensortap stats run activation/embed --step :1
activation/embed  float32[8, 16]
STEP  CALL      MIN     MAX     MEAN     STD     RMS     L1  ZEROS  NAN  INF
   0     0  -0.9558  0.9748   0.1041   0.559  0.5665   62.9      0    0    0
   1     0  -0.9381  0.9291  0.05422  0.5682  0.5685  63.12      0    0    0
$ tensortap stats run loss --step 49 --json
{"schema":1,
"points":[{"site":"loss","rank":0,"step":49,"call":0,"time":1767607200006780000,"phase":"none","value":0.38983050847457623}]}
$ tensortap stats run loss --step 50:
tensortap: no points in these steps; 'tensortap show' says which steps the run has
[2]
$ tensortap stats run loss --step 4:2
tensortap stats: --step takes A:B, A:, :B or A, not '4:2'
[2]
$ tensortap stats run loss --step x
tensortap stats: --step takes A:B, A:, :B or A, not 'x'
[2]
$ tensortap stats run lossy
tensortap: no site matches 'lossy'; did you mean 'loss'?
[2]
$ tensortap stats run
tensortap stats: name a run and a site; 'tensortap show RUN' lists the sites
[2]
$ tensortap stats run loss --step 99
tensortap: no points in these steps; 'tensortap show' says which steps the run has
[2]
$ tensortap stats run loss --step 99 --json
tensortap: no points in these steps; 'tensortap show' says which steps the run has
{"schema":1,
"points":[]}
[2]
$ make_run ranks two
$ tensortap stats two loss --step 0
loss  number  rank 0
STEP  CALL  VALUE
   0     0    2.3

loss  number  rank 1
STEP  CALL  VALUE
   0     0    2.3
# A terminal shows as much as fits and says what it left out.
$ script -qec 'stty rows 12 cols 80; tensortap stats run loss' /dev/null < /dev/null | tr -d '\r' | sed 's/\x1b[^m]*m//g'
loss  number
STEP  CALL   VALUE
   0     0     2.3
   1     0   2.091
   2     0   1.917
   …
  46     0  0.4107
  47     0  0.4035
  48     0  0.3966
  49     0  0.3898
... 43 points in the middle left out; --step A:B shows a part
$ make_run good last; tensortap stats last loss --step 0:99999999999999999999
tensortap stats: --step takes A:B, A:, :B or A, not '0:99999999999999999999'
[2]
$ tensortap stats last loss --step 49:9223372036854775807
loss  number
STEP  CALL   VALUE
  49     0  0.3898
