# An empty file that nobody writes is no run, and says so, whoever asks.
$ mkdir run; touch run/rank0.tap
$ tensortap ls
RUN  STATE       COMMAND
run  unreadable  run: the file is empty: nothing was recorded
$ tensortap show run
tensortap: run: the file is empty: nothing was recorded
[3]
$ tensortap nan run/rank0.tap
tensortap: run/rank0.tap: the file is empty: nothing was recorded
[3]
$ tensortap health run
tensortap: run: the file is empty: nothing was recorded
[3]
$ tensortap check run
tensortap: run: the file is empty: nothing was recorded
[3]
$ touch run/rank1.tap; tensortap show run
tensortap: run: every file is empty: nothing was recorded
[3]
