# What other tools read.
$ make_run values run; make_run good plain
$ tensortap export run loss --to csv -o -
site,rank,step,call,time,phase,value,dtype,shape,count,nan,posinf,neginf,zeros,min,max,absmax,sum,mean,std,l1,l2
"loss",0,0,0,1767607200000116000,,2.3,,,,,,,,,,,,,,,
"loss",0,1,0,1767607200000252000,,2.0909090909090904,,,,,,,,,,,,,,,
"loss",0,2,0,1767607200000388000,,1.9166666666666665,,,,,,,,,,,,,,,
$ tensortap export run activation/head --to csv -o out.csv --step 1 && cat out.csv
site,rank,step,call,time,phase,value,dtype,shape,count,nan,posinf,neginf,zeros,min,max,absmax,sum,mean,std,l1,l2
"activation/head",0,1,0,1767607200000250000,train,,float32,8x16,128,0,0,0,0,-0.4736422896385193,0.45257315039634705,0.4736422896385193,1.942480891942978,0.015175631968304515,0.2807021073647295,30.76805090904236,3.168008026529385
$ tensortap export run loss --to json -o - --step 1
{"schema":1,
"points":[{"site":"loss","rank":0,"step":1,"call":0,"time":1767607200000252000,"phase":"none","value":2.0909090909090904}]}
$ tensortap export run 'parameter/head.*' --to npy -o arrays && ls arrays
parameter_head.bias@0.npy
parameter_head.bias@1.npy
parameter_head.bias@2.npy
$ tensortap export run parameter/head.bias --step 2 --to npy -o one.npy && head -c 6 one.npy | tail -c 5
NUMPY
\ no newline
$ tensortap export run 'parameter/*' --to safetensors -o weights.safetensors && ls *.safetensors
weights.safetensors
# A process and its child may have recorded the same site at the same step.
$ cp -r run pair; cp run/rank0.tap pair/rank0.7.tap; tensortap export pair parameter/head.bias --step 2 --to safetensors -o pair.st
$ tail -c +9 pair.st | tr '{' '\n' | grep -o '"[^"]*@[^"]*"'
"parameter/head.bias@2@rank0"
"parameter/head.bias@2@rank0~2"
$ tensortap export plain 'parameter/*' --to safetensors -o none.safetensors; ls none* 2> /dev/null
tensortap: no values were kept for these sites; record them with keep="value", or export statistics with --to csv
[2]
$ tensortap export run loss --to csv -o /dev/full
tensortap: /dev/full: No space left on device
[3]
$ tensortap export run --to safetensors -o /dev/full
tensortap: /dev/full: No space left on device
[3]
$ tensortap export run loss --to csv -o nowhere/out.csv
tensortap: nowhere/out.csv: No such file or directory
[3]
$ tensortap export run loss --to cvs -o x
tensortap export: no format 'cvs'; did you mean 'csv'?
[2]
$ tensortap export run loss --to feather -o x
tensortap export: no format 'feather'; there are csv, json, npy, safetensors, pt, hdf5, sqlite, parquet, tensorboard
[2]
$ tensortap export run loss --to csv
tensortap export: say where to: -o FILE
[2]
$ tensortap export run loss --to npy -o -
tensortap export: only csv and json go to standard output; give npy a file name
[2]
$ tensortap export run loss -o x
tensortap export: say --to csv, json, npy, safetensors, pt, hdf5, sqlite, parquet or tensorboard
[2]
$ TENSORTAP_PYTHON=/nowhere/python tensortap export run loss --to sqlite -o x
tensortap: cannot start /nowhere/python: No such file or directory; set TENSORTAP_PYTHON to a Python with tensortap
[3]
$ TENSORTAP_PYTHON=/nowhere/python tensortap run script.py
tensortap: cannot start /nowhere/python: No such file or directory; set TENSORTAP_PYTHON to a Python with tensortap
[3]
$ tensortap run
tensortap run: name a script, as in: tensortap run train.py
[2]
$ tensortap run --every 0 script.py
tensortap run: --every takes a number of steps from 1 on, not '0'
[2]
# What to keep is joined by commas or by |, and a name that is none is said before anything runs.
$ TENSORTAP_PYTHON=/bin/echo tensortap run --keep 'stats, value|hist' script.py | tail -n 1
 0 2 keep stats, value|hist script.py
$ TENSORTAP_PYTHON=/bin/echo tensortap run --keep stats,valeu script.py
tensortap run: --keep takes 'stats', 'hist', 'digest', 'sample', 'value', 'tokens', 'placed' or several ('stats,value'), not 'stats,valeu'
[2]
$ TENSORTAP_PYTHON=/bin/echo tensortap run --keep '' script.py
tensortap run: --keep takes 'stats', 'hist', 'digest', 'sample', 'value', 'tokens', 'placed' or several ('stats,value'), not ''
[2]
