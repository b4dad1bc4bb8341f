"""Make the table of a code object: for each statement what it reads and writes.

The extension asks once for each selected code object (line_table.c), inside a
trace callback: nothing here may print or raise for a code object that Python
itself accepts.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import itertools
from types import CodeType

from tensortap.opcodes import Opcodes
from tensortap.paths import ATTRIBUTE, ITEM_BY, NO_PATH, PLAIN, Path
from tensortap.stack_item import NOTHING, Taint
from tensortap.stack_machine import (
    AUGMENTS,
    BRANCHES,
    CALLS,
    DIGESTS,
    FROM_ALL,
    HANDLES,
    LOOPS,
    MAYBE,
    OPERATES,
    RETURNS,
    SAME,
    STEPS,
    Statement,
    site_number,
)

#: positions in reads, instructions whose call's result is in it, and how many of these,
#: the first ones, it is the result of, or a part of that
Sources = tuple[tuple[int, ...], tuple[int, ...], int]
#: path, flags, sources; of a list or dict that is built there: its keys, with sources
Write = tuple[int, int, Sources, tuple[tuple[object, Sources], ...]]
#: first instruction, end, line, flags, exit of a loop, reads (path numbers), writes
Row = tuple[int, int, int, int, int, tuple[int, ...], tuple[Write, ...]]
#: paths, statements, the line of each code unit, the unit at which its instruction
#: begins, is .data or the like used anywhere, does a loop go round on one line, calls and
#: those whose results they are given
Table = tuple[list[Path], list[Row], list[int], list[int], bool, bool, list[tuple[int, int]]]

#: Another tracer comes in the middle of such a line; it shall not hear what we ask for.
DEBUGGERS = {"breakpoint", "set_trace", "settrace", "runcall"}


def table(code: CodeType) -> Table:
    """Return the statements of *code* in the order of their instructions."""
    machine = Opcodes(code)
    statements = machine.run()
    paths = machine.paths.rows
    statements = [statement for statement in statements if statement.end > statement.start]
    if not DEBUGGERS.intersection(code.co_names):
        _find_steps(statements, machine.lines)
    rows = [_row(statement, paths) for statement in statements]
    is_hidden = any(
        statement.flags & DIGESTS
        and any(
            paths[p][0] == ATTRIBUTE and paths[p][2] != "step"
            for p in (*statement.reads, *statement.writes)
        )
        for statement in statements
    )
    begins = [0] * len(machine.lines)
    for instruction in machine.instructions:
        begins[instruction.offset // 2] = instruction.offset // 2
    for unit in range(1, len(begins)):
        begins[unit] = begins[unit] or begins[unit - 1]
    takes = sorted(machine.takes)
    return paths, rows, machine.lines, begins, is_hidden, _has_tight_loop(machine), takes


def _find_steps(statements: list[Statement], lines: list[int]) -> None:
    """Mark those that have no line event and do more than the one before can be told with."""
    for before, one in itertools.pairwise(statements):
        is_inside = one.start > 0 and lines[one.start] == lines[one.start - 1]
        if not is_inside or one.flags & HANDLES or one.last == "RAISE_VARARGS":
            continue
        if one.flags & LOOPS and not before.writes and not before.flags & BRANCHES:
            continue  # a loop takes its first item: told with what it goes over
        is_condition = one.flags & BRANCHES and one.last.startswith(("POP_JUMP", "NOT_TAKEN"))
        if (
            one.writes
            or one.flags & (CALLS | AUGMENTS)
            or (one.flags & RETURNS and one.reads)
            or (one.flags & OPERATES and not is_condition)
        ):
            one.flags |= STEPS


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
    used = {path for path in used if path > NO_PATH}
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
            _sources(statement, position, path),
            _parts(statement, position, path),
        )
        for path, (flags, _) in statement.writes.items()
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


def _sources(statement: Statement, position: dict[int, int], path: int) -> Sources:
    """Return what a write was computed from."""
    flags, taint = statement.writes[path]
    direct = statement.direct.get(path, NOTHING)
    if flags & FROM_ALL:
        taint = frozenset((*position, *map(site_number, statement.sites)))
    return _traced(taint, direct, position)


def _parts(
    statement: Statement, position: dict[int, int], path: int
) -> tuple[tuple[object, Sources], ...]:
    """Return where each item of a list or dict comes from, if its keys are plain and differ."""
    entries = statement.entries.get(path, ())
    if not all(type(key) in PLAIN for key, _ in entries) or len(dict(entries)) < len(entries):
        return ()
    return tuple(
        (key, _traced(item.reads | statement.control, item.direct, position))
        for key, item in entries
    )


def _traced(taint: Taint, direct: Taint, position: dict[int, int]) -> Sources:
    """Return where a value comes from, the calls that it is the result of first."""
    made = {site_number(number) for number in direct}
    sites = {site_number(number) for number in taint if number < NO_PATH}
    reads = sorted(position[read] for read in taint if read in position)
    return tuple(reads), (*sorted(made), *sorted(sites - made)), len(made)


def _is_inner(path: int, statement: Statement, paths: list[Path]) -> bool:
    """Say whether the path is only on the way to a longer one that is read too."""
    return any(
        paths[longer][1] == path for longer in statement.reads if paths[longer][0] >= ATTRIBUTE
    ) or any(
        paths[longer][0] == ITEM_BY and path in _key(paths[longer]) for longer in statement.reads
    )


def _key(path: Path) -> tuple[object, ...]:
    return path[2] if isinstance(path[2], tuple) else (path[2],)
