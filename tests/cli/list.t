# Runs are listed with the latest first; what is no run is not.
$ tensortap ls
no runs in .; tensortap run script.py makes one
$ make_run good runs/good
$ make_run ranks runs/deep/er/two
$ mkdir runs/other && echo text > runs/other/rank0.txt
$ tensortap ls
RUN        VERDICT          LOSS  STARTED              STATE     STEPS     SIZE  COMMAND
runs/good  nothing found  0.3898  2026-01-05 10:00:00  finished     50  62.3 kB  train.py --lr 0.1
$ tensortap ls runs/deep
RUN               VERDICT          LOSS  STARTED              STATE     STEPS     SIZE  COMMAND
runs/deep/er/two  nothing found  0.7931  2026-01-05 10:00:00  finished     20  59.3 kB  train.py --lr 0.1
$ tensortap ls nowhere
tensortap: nowhere: No such file or directory; give a folder that holds runs
[3]
$ tensortap ls --json runs/deep
{"schema":1,
"runs":[{"run":"runs/deep/er/two","started":1767607200000000000,"command":"train.py --lr 0.1","state":"finished","first_step":0,"last_step":19,"points":1440,"ranks":2,"bytes":59264,"verdict":"nothing found in 20 steps; 7 of 38 rules had no data: no optimizer, no inputs of a model","loss":0.7931034482758619,"loss_name":"loss","lr":null,"batch":null,"stride":1,"values":{}}]}
# A run that was killed, and a file that is no run.
$ make_run killed runs/killed
$ mkdir runs/broken && echo 'not a run at all, but long enough to look like one' > runs/broken/rank0.tap
$ tensortap ls runs | sort
RUN               VERDICT          LOSS  STARTED              STATE       STEPS     SIZE  COMMAND
runs/broken                                                   unreadable                  runs/broken/rank0.tap is not a run file, or its beginning is damaged
runs/deep/er/two  nothing found  0.7931  2026-01-05 10:00:00  finished       20  59.3 kB  train.py --lr 0.1
runs/good         nothing found  0.3898  2026-01-05 10:00:00  finished       50  62.3 kB  train.py --lr 0.1
runs/killed       nothing found  0.3898  2026-01-05 10:00:00  crashed        50  57.7 kB  train.py --lr 0.1
# Runs are chosen and sorted by columns, settings and logged numbers.
$ tensortap ls runs --where 'loss<0.5' --where 'state!=crashed'
RUN        VERDICT          LOSS  STARTED              STATE     STEPS     SIZE  COMMAND
runs/good  nothing found  0.3898  2026-01-05 10:00:00  finished     50  62.3 kB  train.py --lr 0.1
1 of 4 runs; 1 without these values
$ tensortap ls runs --sort -loss | cut -c 1-16
RUN             
runs/deep/er/two
runs/good       
runs/killed     
runs/broken     
$ tensortap ls runs --where 'loss>9'
0 of 4 runs; 1 without these values
$ tensortap ls runs --where 'loss>9' --json
{"schema":1,
"runs":[]}
$ tensortap ls runs --where 'steps>twenty'
tensortap: --where: steps is a number (20 in runs/deep/er/two), 'twenty' is none
[2]
$ tensortap ls runs --where 'steps'
tensortap ls: --where takes KEY OP VALUE, such as 'lr<0.001', with one of < <= > >= = != ~, not 'steps'
[2]
$ tensortap ls runs --where 'lss<1'
tensortap: no run has a setting or a logged number 'lss'; the nearest: 'loss', 'lr'
[2]
$ tensortap ls runs --sort -
tensortap ls: --sort takes one KEY, such as loss or -val/accuracy, not '-'
[2]
$ tensortap ls runs --sort loss --sort steps
tensortap ls: --sort takes one KEY, such as loss or -val/accuracy, not 'steps'
[2]
$ tensortap ls runs --sort loss --keep-last 3
tensortap ls: --keep-last goes by time alone: leave out --where, --sort and --verdict
[2]
# A folder may hold more runs than a process may open files.
$ mkdir many; for i in 1 2 3 4 5 6 7 8 9; do cp -r runs/good many/$i; done; (ulimit -n 9; tensortap ls many | grep -c finished)
9
$ (ulimit -n 9; tensortap ls many --keep-last 2 --yes); ls many
removed many/3
removed many/4
removed many/5
removed many/6
removed many/7
removed many/8
removed many/9
1
2
# Where it is narrow, the end of the name stays, and the command gives way.
$ mkdir -p a-folder/with/long-names; mv runs a-folder/with/long-names; COLUMNS=80 tensortap ls a-folder/with/long-names; mv a-folder/with/long-names/runs .
RUN                       VERDICT          LOSS  STATE       STEPS  COMMAND
a-folde…-names/runs/good  nothing found  0.3898  finished       50
a-folde…ames/runs/killed  nothing found  0.3898  crashed        50
a-folde…ames/runs/broken                         unreadable         a-folder/wi…
# A folder that holds runs is no run.
$ tensortap show runs
tensortap: runs holds no run (no rank*.tap in it); 'tensortap ls' looks further down
[3]
# rm asks, and where nobody can be asked it does nothing.
$ tensortap rm runs/good
tensortap: would remove 1 run, 62.3 kB; without a terminal to ask on, add --yes
[3]
$ tensortap rm runs/nowhere
tensortap: no run at 'runs/nowhere'; 'tensortap ls FOLDER' lists runs
[3]
$ tensortap rm
tensortap rm: name a run to remove
[2]
$ touch runs/good/notes.txt
$ ln -s good runs/latest; tensortap rm --yes runs/latest
tensortap: runs/latest is a symbolic link; nothing was removed. Name the run itself
[3]
$ tensortap rm --yes runs/latest/; rm runs/latest; ls runs/good
tensortap: runs/latest/ is a symbolic link; nothing was removed. Name the run itself
notes.txt
rank0.tap
$ tensortap rm --yes runs/good runs/deep/er/two
removed runs/good
removed runs/deep/er/two
$ ls runs/good; ls runs/deep/er
notes.txt
$ tensortap ls runs --keep-last 0
tensortap: would remove 1 run, 57.7 kB; without a terminal to ask on, add --yes
[3]
$ tensortap ls runs --keep-last many
tensortap ls: --keep-last takes a number, not 'many'
[2]
# What check --repair wrote beside a run goes with it, and nothing else does.
$ make_run killed runs/dead && tensortap check runs/dead --repair > /dev/null
$ echo 'not a run' > runs/dead/rank7.repaired.tap
$ tensortap rm runs/dead --yes --json
{"schema":1,
"removed":[{"run":"runs/dead","bytes":120064}]}
$ ls runs/dead
rank7.repaired.tap
$ make_run good runs/last && tensortap rm runs/last --yes --json | tr -d '\n'; ls runs
{"schema":1,"removed":[{"run":"runs/last","bytes":62336}]}broken
dead
deep
good
killed
other
$ tensortap rm --yes --json runs/nowhere
tensortap: no run at 'runs/nowhere'; 'tensortap ls FOLDER' lists runs
[3]
$ tensortap ls runs --keep-last 5 --json
{"schema":1,
"removed":[]}
$ tensortap ls runs --keep-last 0 --yes --json
{"schema":1,
"removed":[{"run":"runs/killed","bytes":57728}]}
