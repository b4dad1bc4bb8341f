"""Find out what each statement of a code object reads and writes, for the line source.

`table.py` makes the table that the extension reads. `source.py` finds the syntax tree of a
code object, `instructions.py` says which instructions belong to which part of it,
`expressions.py` and `statements.py` follow the data through it. Code whose source is not
known is read from its instructions alone.
SPDX-License-Identifier: Apache-2.0
"""
