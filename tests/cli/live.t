# A run whose file is locked is being written: it is live, and nobody removes it.
$ make_run killed live; make_run good old; make_run good older
$ flock live/rank0.tap tensortap ls | cut -c 1-7,29-40
RUN    STATE     ST
live   live        
old    finished    
older  finished    
$ tensortap ls | cut -c 1-7,29-40
RUN    STATE     ST
live   crashed     
old    finished    
older  finished    
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
