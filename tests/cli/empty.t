# A run of which nothing was written yet says so, whoever asks.
$ mkdir run; touch run/rank0.tap
$ tensortap ls | cut -c 1-3,26-
RUN STATE    STEPS  SIZE
run crashed      0   0 B
$ tensortap show run
run  crashed  0 sites  0 points  0 B
$ tensortap nan run
nothing has been recorded in this run
$ tensortap stats run '*'
tensortap: nothing has been recorded in this run
[2]
$ tensortap top --once run
run  crashed  0 sites  0 points  0 B
speed not known

CHANGES MOST  STEP  RMS  CHANGE  OVER STEPS
$ tensortap check run
run/rank0.tap  whole  not closed
  0 blocks, 0 points, 0 values
$ tensortap export run --to csv -o -
tensortap: nothing has been recorded in this run
[2]
$ tensortap diff run run
nothing to compare: no site has points of the same steps in both runs
0 points compared; sites: 0 identical, 0 within noise, 0 differ
[2]
