# An answer that cannot be written is a failure, whoever printed it.
$ tensortap --version > /dev/full
tensortap: cannot write the output: No space left on device
[3]
$ tensortap --help > /dev/full
tensortap: cannot write the output: No space left on device
[3]
$ tensortap help > /dev/full
tensortap: cannot write the output: No space left on device
[3]
$ tensortap --version >&-
tensortap: cannot write the output: Bad file descriptor
[3]
# Errors that cannot be written change nothing.
$ tensortap hlep 2> /dev/full
[2]
