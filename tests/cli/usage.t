# What the program says about itself.
$ tensortap --version | sed 's/[0-9]*[.][0-9]*[.][0-9]*$/X.Y.Z/'
tensortap X.Y.Z
$ tensortap --help
Usage: tensortap [OPTION...] COMMAND [ARGUMENT...]
Show what the tensors of a PyTorch program do.

  -h, --help                 Print this help
      --usage                Print how it is called
  -V, --version              Print the version of the program

Commands:
  run      SCRIPT ...       run a Python program and record its models
  replay   RUN              run a step of a black box again
  ls       [FOLDER]         list runs: verdict, loss, settings, when, steps, state
  show     RUN [GLOB]       a tree of all sites, what is wrong first
  stats    RUN GLOB         the statistics of sites, step by step
  health   RUN              what is wrong with a training, and what to do
  explain  RUN              the state of a run in a few lines
  nan      RUN              where the first NaN or Inf was born
  diff     RUN RUN          where two runs diverge
  report   RUN...           a page to look at and to send
  serve    [FOLDER]         the page of every run in a folder, live
  query    SQL RUN...       ask many runs a question in SQL
  export   RUN [GLOB]       write csv, json, npy, safetensors, pt, hdf5 ...
  upload   RUN URL          copy a run into an object store
  download URL [FOLDER]     copy runs out of an object store
  graph    RUN              draw which module calls which
  check    RUN              verify every checksum, repair
  top      RUN              a live view of a training
  rm       RUN...           remove runs; asks first
  examples [FOLDER]         write the programs that the documents use
  skill                     how to find a cause, for a program that reads answers
  help     [COMMAND]        print this help, or that of a command

For example: tensortap show runs/today
$ tensortap -h | head -n 2
Usage: tensortap [OPTION...] COMMAND [ARGUMENT...]
Show what the tensors of a PyTorch program do.
$ tensortap
Usage: tensortap [OPTION...] COMMAND [ARGUMENT...]
Show what the tensors of a PyTorch program do.

  -h, --help                 Print this help
      --usage                Print how it is called
  -V, --version              Print the version of the program

Commands:
  run      SCRIPT ...       run a Python program and record its models
  replay   RUN              run a step of a black box again
  ls       [FOLDER]         list runs: verdict, loss, settings, when, steps, state
  show     RUN [GLOB]       a tree of all sites, what is wrong first
  stats    RUN GLOB         the statistics of sites, step by step
  health   RUN              what is wrong with a training, and what to do
  explain  RUN              the state of a run in a few lines
  nan      RUN              where the first NaN or Inf was born
  diff     RUN RUN          where two runs diverge
  report   RUN...           a page to look at and to send
  serve    [FOLDER]         the page of every run in a folder, live
  query    SQL RUN...       ask many runs a question in SQL
  export   RUN [GLOB]       write csv, json, npy, safetensors, pt, hdf5 ...
  upload   RUN URL          copy a run into an object store
  download URL [FOLDER]     copy runs out of an object store
  graph    RUN              draw which module calls which
  check    RUN              verify every checksum, repair
  top      RUN              a live view of a training
  rm       RUN...           remove runs; asks first
  examples [FOLDER]         write the programs that the documents use
  skill                     how to find a cause, for a program that reads answers
  help     [COMMAND]        print this help, or that of a command

For example: tensortap show runs/today
[2]
$ tensortap help
Usage: tensortap [OPTION...] COMMAND [ARGUMENT...]
Show what the tensors of a PyTorch program do.

  -h, --help                 Print this help
      --usage                Print how it is called
  -V, --version              Print the version of the program

Commands:
  run      SCRIPT ...       run a Python program and record its models
  replay   RUN              run a step of a black box again
  ls       [FOLDER]         list runs: verdict, loss, settings, when, steps, state
  show     RUN [GLOB]       a tree of all sites, what is wrong first
  stats    RUN GLOB         the statistics of sites, step by step
  health   RUN              what is wrong with a training, and what to do
  explain  RUN              the state of a run in a few lines
  nan      RUN              where the first NaN or Inf was born
  diff     RUN RUN          where two runs diverge
  report   RUN...           a page to look at and to send
  serve    [FOLDER]         the page of every run in a folder, live
  query    SQL RUN...       ask many runs a question in SQL
  export   RUN [GLOB]       write csv, json, npy, safetensors, pt, hdf5 ...
  upload   RUN URL          copy a run into an object store
  download URL [FOLDER]     copy runs out of an object store
  graph    RUN              draw which module calls which
  check    RUN              verify every checksum, repair
  top      RUN              a live view of a training
  rm       RUN...           remove runs; asks first
  examples [FOLDER]         write the programs that the documents use
  skill                     how to find a cause, for a program that reads answers
  help     [COMMAND]        print this help, or that of a command

For example: tensortap show runs/today
$ tensortap help help
Usage: tensortap help [OPTION...] [COMMAND]
Print what tensortap can do, or how to use one of its commands.

  -h, --help                 Print this help
      --usage                Print how it is called
  -V, --version              Print the version of the program

For example: tensortap help show
$ tensortap show -h | head -n 1
Usage: tensortap show [OPTION...] RUN [GLOB]
# Mistakes are one line and exit code 2.
$ tensortap hlep
tensortap: no command 'hlep'; did you mean 'help'?
[2]
$ tensortap HELP
tensortap: no command 'HELP'; 'tensortap help' lists them
[2]
$ tensortap frobnicate
tensortap: no command 'frobnicate'; 'tensortap help' lists them
[2]
$ tensortap ''
tensortap: no command ''; 'tensortap help' lists them
[2]
$ tensortap help hepl
tensortap: no command 'hepl'; did you mean 'help'?
[2]
$ tensortap help one two
tensortap help: 'two' is one too many; name one command
[2]
$ tensortap --nonsense
tensortap: unrecognized option '--nonsense'
Try `tensortap --help' or `tensortap --usage' for more information.
[2]
$ tensortap -? | head -n 1
Usage: tensortap [OPTION...] COMMAND [ARGUMENT...]
$ tensortap run --usage
Usage: tensortap run [OPTION...] SCRIPT [ARGUMENT...]
  or:  tensortap run [OPTION...] -m MODULE [ARGUMENT...]
$ tensortap show --al
tensortap show: name a run; 'tensortap ls' lists them
[2]
$ tensortap show -x
tensortap show: invalid option -- 'x'
Try `tensortap show --help' or `tensortap show --usage' for more information.
[2]
$ tensortap stats a b c --step
tensortap stats: option '--step' requires an argument
Try `tensortap stats --help' or `tensortap stats --usage' for more information.
[2]
