"""Make the table of a code object: for each statement what it reads and writes.

The extension asks once for each selected code object (lines/table.c), inside a
trace callback: nothing here may print or raise for a code object that Python
itself accepts.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import itertools
import warnings
from types import CodeType

from tensortap.analysis import names, source
from tensortap.analysis.instructions import Instructions
from tensortap.analysis.paths import ATTRIBUTE, ITEM_BY, NO_PATH, PLAIN, Path, Paths
from tensortap.analysis.pieces import pieces
from tensortap.analysis.statement import (
    AUGMENTS,
    BRANCHES,
    CALLS,
    DIGESTS,
    HANDLES,
    LOOPS,
    MAYBE,
    OPERATES,
    RETURNS,
    SAME,
    STEPS,
    Piece,
    Statement,
    site_number,
)
from tensortap.analysis.statements import Statements
from tensortap.analysis.value import NOTHING, Reads

#: positions in reads, instructions whose call's result is in it, and how many of these,
#: the first ones, it is the result of, or a part of that
Sources = tuple[tuple[int, ...], tuple[int, ...], int]
#: path, flags, sources; of a list or dict that is built there: its keys, with sources
Write = tuple[int, int, Sources, tuple[tuple[object, Sources], ...]]
#: first instruction, end, line, flags, exit of a loop, reads (path numbers), writes
Row = tuple[int, int, int, int, int, tuple[int, ...], tuple[Write, ...]]
#: instruction, what it is given; its arguments by position and name (None: not known)
Call = tuple[int, Sources, tuple[tuple[object, Sources], ...]]
#: paths, statements, the line of each code unit, the unit at which its instruction
#: begins, is .data or the like used anywhere, does a loop go round on one line, calls with what
#: they are given, sorted
Table = tuple[list[Path], list[Row], list[int], list[int], bool, bool, list[Call]]

#: Another tracer comes in the middle of such a line; it shall not hear what we ask for.
DEBUGGERS = {"breakpoint", "set_trace", "settrace", "runcall"}


if not any(place[2] is not None for place in compile("x", "", "eval").co_positions()):
    warnings.warn(
        "tensortap: Python runs without debug ranges (-X no_debug_ranges or PYTHONNODEBUGRANGES): "
        "changes are reported by name and line, and charts have no arrows",
        stacklevel=2,
    )


def table(code: CodeType) -> Table:
    """Return the statements of *code* in the order of their instructions."""
    instructions, paths = Instructions(code), Paths(code)
    try:
        found = source.find(code)
        if found is not None:
            statements = Statements(instructions, paths, found.class_name)
            parts = pieces(found.node, instructions, statements)
            if not DEBUGGERS.intersection(code.co_names):
                _find_steps(parts, instructions.lines)
    except RecursionError:  # an expression of a thousand levels, or a program that is deep itself
        found = None
    if found is None:
        parts = names.pieces(instructions, paths)
    calls: dict[int, Call] = {}
    rows = [_row(piece, paths.rows, calls) for piece in parts]
    is_hidden = any(
        one.flags & DIGESTS and any(_hides(paths.rows[p]) for p in (*one.reads, *one.writes))
        for one in (piece.statement for piece in parts)
    )
    return (
        paths.rows,
        rows,
        instructions.lines,
        instructions.begins,
        is_hidden,
        instructions.has_tight_loop(),
        sorted(calls.values(), key=lambda call: call[0]),
    )


def _hides(path: Path) -> bool:
    return path[0] == ATTRIBUTE and path[2] != "step"


def _find_steps(parts: list[Piece], lines: list[int]) -> None:
    """Mark those that have no line event and do more than the one before can be told with."""
    for last, piece in itertools.pairwise(parts):
        before, one = last.statement, piece.statement
        is_inside = piece.start > 0 and lines[piece.start] == lines[piece.start - 1]
        if not is_inside or piece.flags & HANDLES or one.raises:
            continue
        if one.flags & LOOPS and not before.writes and not before.flags & BRANCHES:
            continue  # a loop takes its first item: told with what it goes over
        if (
            one.writes
            or one.flags & (CALLS | AUGMENTS)
            or (one.flags & RETURNS and one.reads)
            or (one.flags & OPERATES and not one.is_test)
        ):
            piece.flags |= STEPS


def _row(piece: Piece, paths: list[Path], calls: dict[int, Call]) -> Row:
    statement = piece.statement
    used = set(statement.control)
    for path, (_, sources) in statement.writes.items():
        used |= sources | {path}
    for given in statement.calls.values():
        used |= given.reads
    used = {path for path in used if path > NO_PATH}
    idle = statement.callees - used
    reads = [
        p for p in statement.reads if p in used or not (p in idle or _is_inner(p, statement, paths))
    ]
    reads += sorted(used - set(reads) - set(statement.writes))
    for path, (_, sources) in statement.writes.items():
        if path in sources and path not in reads:
            reads.append(path)
    position = {path: i for i, path in enumerate(reads)}
    for site, given in statement.calls.items():
        named = [
            (key, _traced(one.reads, one.direct, position)) for key, one in given.entries or ()
        ]
        calls[site] = site, _traced(given.reads, given.direct, position), tuple(named)
    writes = tuple(
        (
            path,
            flags,
            _traced(sources, statement.direct.get(path, NOTHING), position),
            _parts(statement, position, path),
        )
        for path, (flags, sources) in statement.writes.items()
        if not (flags & SAME and flags & MAYBE)
    )
    flags = statement.flags | piece.flags
    return piece.start, piece.end, piece.line, flags, piece.exit, tuple(reads), writes


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


def _traced(reads: Reads, direct: Reads, position: dict[int, int]) -> Sources:
    """Return where a value comes from, the calls that it is the result of first."""
    found = [position[read] for read in reads if read in position]
    made = sorted([site_number(number) for number in direct])
    sites = [site_number(one) for one in reads if one < NO_PATH and one not in direct]
    return tuple(sorted(found)), (*made, *sorted(sites)), len(made)


def _is_inner(path: int, statement: Statement, paths: list[Path]) -> bool:
    """Say whether the path is only on the way to a longer one that is read too."""
    return any(
        paths[longer][1] == path for longer in statement.reads if paths[longer][0] >= ATTRIBUTE
    ) or any(
        paths[longer][0] == ITEM_BY and path in _key(paths[longer]) for longer in statement.reads
    )


def _key(path: Path) -> tuple[object, ...]:
    return path[2] if isinstance(path[2], tuple) else (path[2],)
