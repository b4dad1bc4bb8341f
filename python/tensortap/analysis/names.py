"""Read code whose source is not known: which names each of its lines stores.

Changes are told by name; where a value comes from is not known.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from tensortap.analysis.instructions import Instructions
from tensortap.analysis.paths import Paths
from tensortap.analysis.statement import (
    CALLS,
    DIGESTS,
    DOUBTFUL,
    HANDLES,
    RETURNS,
    Piece,
    Statement,
)
from tensortap.analysis.value import NOTHING

STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
LOADS = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF")


def pieces(instructions: Instructions, paths: Paths) -> list[Piece]:
    """Return a piece for each run of instructions on one line."""
    found: list[Piece] = []
    owner = None  # the variable that the instruction before has loaded
    for i, end in zip(instructions.all, instructions.ends, strict=True):
        unit = i.offset // 2
        line, is_handler = instructions.lines[unit], unit in instructions.handlers
        if not found or is_handler or line not in (0, found[-1].line):
            # It may do anything, and leave off anywhere.
            statement = Statement(CALLS | DIGESTS | DOUBTFUL)
            found.append(Piece(unit, end, line, statement, flags=HANDLES if is_handler else 0))
        piece = found[-1]
        piece.end = end
        names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
        if i.opname.startswith("RETURN_"):
            piece.statement.flags |= RETURNS
        elif i.opname == "STORE_ATTR" and owner is not None:
            piece.statement.write(paths.attribute(owner, i.argval), 0, NOTHING)
        elif i.opname == "STORE_FAST_LOAD_FAST":
            piece.statement.write(paths.variable(names[0]), 0, NOTHING)
        elif i.opname.startswith(STORES):
            for name in names:
                piece.statement.write(paths.variable(name), 0, NOTHING)
        owner = None
        if i.opname.startswith(LOADS) and isinstance(names[-1], str):
            owner = paths.variable(names[-1])
    return found
