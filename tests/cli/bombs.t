# Files with right checksums that claim more than they hold: refused or read in little memory and time.
$ for kind in points full paid repeat backwards frame zeros alone; do mkdir $kind; make_bomb $kind $kind/rank0.tap; done
# most: 256 MB, 10 s
$ for command in show nan check; do tensortap $command points; done
tensortap: points/rank0.tap is refused: at byte 437 it claims more points than its 69056 bytes can hold; no recorder wrote this
tensortap: points/rank0.tap is refused: at byte 437 it claims more points than its 69056 bytes can hold; no recorder wrote this
tensortap: points/rank0.tap is refused: at byte 437 it claims more points than its 69056 bytes can hold; no recorder wrote this
[3]
$ tensortap export points --to csv -o x.csv
tensortap: points/rank0.tap is refused: at byte 437 it claims more points than its 69056 bytes can hold; no recorder wrote this
[3]
$ tensortap show full | head -n 1
full  crashed  steps 0 to 0  4 sites  1 048 576 points  512 B
$ tensortap nan full | head -n 1
1 NaN in activation/layer0 at step 0
$ tensortap check --repair full
full/rank0.tap  whole  not closed
  1 blocks, 1 048 576 points, 0 values
  all that can be read is in full/rank0.repaired.tap
$ tensortap show paid | head -n 1
paid  crashed  steps 0 to 0  8 sites  13 631 488 points  13.1 MB
$ tensortap nan paid | head -n 1
1 NaN in activation/layer0 at step 0
$ tensortap stats paid activation/layer0 | tail -n 1
... 1603936 points in the middle left out; --step A:B shows a part, export --to csv writes all
$ for format in csv json sqlite hdf5; do tensortap export paid --to $format -o x; done
tensortap: these 13 631 488 points take 1.4 GB as text, and the run only 13.1 MB: refused; choose fewer of them with GLOB and --step
tensortap: these 13 631 488 points take 1.4 GB as text, and the run only 13.1 MB: refused; choose fewer of them with GLOB and --step
tensortap: these 13 631 488 points take 1.4 GB as text, and the run only 13.1 MB: refused; choose fewer of them with GLOB and --step
tensortap: these 13 631 488 points take 1.4 GB as text, and the run only 13.1 MB: refused; choose fewer of them with GLOB and --step
[3]
$ tensortap export paid activation/layer0 --to csv -o x.csv && tail -n 1 x.csv && rm x.csv
"activation/layer0",0,0,0,0,,,float32,,8,1,0,0,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0
$ tensortap show repeat
repeat  finished  steps 0 to 0  1 site  3 200 000 points  1.2 MB
tensortap: a point cannot be read, the file is damaged; save the rest with: tensortap check --repair repeat/rank0.tap
[3]
$ tensortap export repeat --to csv -o x.csv
tensortap: these 3 200 000 points take 320 MB as text, and the run only 1.2 MB: refused; choose fewer of them with GLOB and --step
[3]
$ tensortap show backwards
backwards  crashed  steps 0 to 0  1 site  1 points  4.0 MB
the program did not close the run: it was killed, or it crashed; at most the last half second is missing
nothing found in 1 step, too few for most rules; 26 of 38 rules had no data: no optimizer, no call of a model, no loss

SITE  LATEST   MIN  MAX  MEAN  STD  RMS OVER STEPS
x     float32    0    0     0    0  ▄
$ tensortap check backwards
backwards/rank0.tap  whole  not closed
  0 blocks, 1 points, 0 values, 4.0 MB of an unfinished block at the end
$ for kind in frame zeros alone; do tensortap export $kind --to npy -o arrays; done
tensortap: frame/rank0.tap: the value at 64 claims more than a run can hold; it was refused
tensortap: these values take 1.1 GB, and the run only 57.5 kB: refused; choose fewer of them with GLOB and --step, or read one with tt.open(RUN).tensor()
tensortap: the value at 64 cannot be read, the file is damaged; save the rest with: tensortap check --repair alone/rank0.tap; --partial exports the rest
[3]
$ for kind in frame zeros; do tensortap export $kind --to pt -o x.pt; done
tensortap: frame/rank0.tap: the value at 64 claims more than a run can hold; it was refused
tensortap: these values take 1.1 GB, and the run only 57.5 kB: refused; choose fewer of them with GLOB and --step, or read one with tt.open(RUN).tensor()
[3]
$ ls
alone
backwards
frame
full
paid
points
repeat
zeros
