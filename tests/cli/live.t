# A run whose file is locked is being written: it is live, and nobody removes it.
$ make_run killed live; make_run good old; make_run good older
$ flock live/rank0.tap tensortap ls | sed -E 's/ +[A-Z0-9.-]+ +[0-9-]+ 10:00:00//; s/ +[0-9]+ +[0-9.]+ kB.*//'
RUN    VERDICT          LOSS  STARTED              STATE     STEPS     SIZE  COMMAND
live   nothing found  live
old    nothing found  finished
older  nothing found  finished
$ tensortap ls | sed -E 's/ +[A-Z0-9.-]+ +[0-9-]+ 10:00:00//; s/ +[0-9]+ +[0-9.]+ kB.*//'
RUN    VERDICT          LOSS  STARTED              STATE     STEPS     SIZE  COMMAND
live   nothing found  crashed
old    nothing found  finished
older  nothing found  finished
$ flock live/rank0.tap tensortap rm --yes live
tensortap: live is being written; end its program first
[3]
$ flock live/rank0.tap tensortap rm --yes old live; ls
tensortap: live is being written; end its program first
live
old
older
$ flock live/rank0.tap tensortap ls --keep-last 1 --yes; ls
removed older
live
old
$ tensortap rm --yes live; ls
removed live
old
