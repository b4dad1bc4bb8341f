# Checksums, and what can be saved.
$ make_run good good; tensortap check good
good/rank0.tap  whole
  4 blocks, 1800 points, 0 values
$ make_run killed killed; tensortap check killed
killed/rank0.tap  whole  not closed
  2 blocks, 1800 points, 0 values
$ tensortap check killed --repair; tensortap check killed/rank0.repaired.tap
killed/rank0.tap  whole  not closed
  2 blocks, 1800 points, 0 values
  all that can be read is in killed/rank0.repaired.tap
killed/rank0.repaired.tap  whole
  4 blocks, 1800 points, 0 values
$ printf X | dd of=good/rank0.tap bs=1 seek=3000 conv=notrunc 2> /dev/null
$ tensortap check good
good/rank0.tap  damaged: 57.5 kB in 1 place cannot be read; the first is a damaged block at byte 192
  4 blocks, 0 points, 0 values
'tensortap check --repair' writes all that can be read into a clean file
[1]
$ tensortap check good --json
{"schema":1,
"files":[{"file":"good/rank0.tap","whole":false,"closed":true,"blocks":4,"points":0,"values":0,"gone_values":0,"damaged_blocks":1,"damaged_bytes":57536,"torn_bytes":0,"first_damage":"a damaged block at byte 192","repaired":null}]}
[1]
$ tensortap check good --repair
good/rank0.tap  damaged: 57.5 kB in 1 place cannot be read; the first is a damaged block at byte 192
  4 blocks, 0 points, 0 values
  all that can be read is in good/rank0.repaired.tap
[1]
$ tensortap check good/rank0.repaired.tap | head -n 1
good/rank0.repaired.tap  whole
$ tensortap check nowhere
tensortap: no run at 'nowhere'; 'tensortap ls FOLDER' lists runs
[3]
$ tensortap check
tensortap check: name a run; 'tensortap ls' lists them
[2]
