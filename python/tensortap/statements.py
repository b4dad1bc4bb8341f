"""Make the table of a code object: for each statement what it reads and writes.

The extension asks once for each selected code object (line_table.c), inside a
trace callback: nothing here may print or raise for a code object that Python
itself accepts.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from types import CodeType

from tensortap.opcodes import Opcodes
from tensortap.paths import ATTRIBUTE, ITEM_BY, Path
from tensortap.stack_machine import DIGESTS, FROM_ALL, MAYBE, SAME, Statement, Taint

#: first instruction, end, line, flags, exit of a loop, reads (path numbers),
#: writes: (path, flags, positions in reads)
Row = tuple[int, int, int, int, int, tuple[int, ...], tuple[tuple[int, int, tuple[int, ...]], ...]]
#: paths, statements, the line of each instruction, is .data or the like used
#: anywhere, does a loop go round on one line
Table = tuple[list[Path], list[Row], list[int], bool, bool]


def table(code: CodeType) -> Table:
    """Return the statements of *code* in the order of their instructions."""
    machine = Opcodes(code)
    statements = machine.run()
    paths = machine.paths.rows
    rows = [_row(statement, paths) for statement in statements if statement.end > statement.start]
    is_hidden = any(
        statement.flags & DIGESTS
        and any(
            paths[p][0] == ATTRIBUTE and paths[p][2] != "step"
            for p in (*statement.reads, *statement.writes)
        )
        for statement in statements
    )
    return paths, rows, machine.lines, is_hidden, _has_tight_loop(machine)


def _has_tight_loop(machine: Opcodes) -> bool:
    return any(
        "BACKWARD" in i.opname and machine.lines[i.offset // 2] == machine.lines[int(i.argval) // 2]
        for i in machine.instructions
        if i.argval is not None and i.opname.startswith(("JUMP", "POP_JUMP"))
    )


def _row(statement: Statement, paths: list[Path]) -> Row:
    used = set(statement.control)
    for path, (_, taint) in statement.writes.items():
        used |= taint | {path}
    idle = statement.callees - used
    reads = [
        p for p in statement.reads if p in used or not (p in idle or _is_inner(p, statement, paths))
    ]
    reads += sorted(used - set(reads) - set(statement.writes))
    for path, (_, taint) in statement.writes.items():
        if path in taint and path not in reads:
            reads.append(path)
    position = {path: i for i, path in enumerate(reads)}
    writes = tuple(
        (
            path,
            flags & ~FROM_ALL,
            tuple(range(len(reads))) if flags & FROM_ALL else _positions(taint, position),
        )
        for path, (flags, taint) in statement.writes.items()
    )
    kept = tuple(w for w in writes if not (w[1] & SAME and w[1] & MAYBE))
    return (
        statement.start,
        statement.end,
        statement.line,
        statement.flags,
        statement.exit,
        tuple(reads),
        kept,
    )


def _positions(taint: Taint, position: dict[int, int]) -> tuple[int, ...]:
    return tuple(sorted(position[read] for read in taint if read in position))


def _is_inner(path: int, statement: Statement, paths: list[Path]) -> bool:
    """Say whether the path is only on the way to a longer one that is read too."""
    return any(
        paths[longer][1] == path for longer in statement.reads if paths[longer][0] >= ATTRIBUTE
    ) or any(paths[longer][0] == ITEM_BY and paths[longer][2] == path for longer in statement.reads)
