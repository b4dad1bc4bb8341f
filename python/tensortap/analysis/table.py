"""Make the table of a code object: for each statement what it reads and writes.

The extension asks once for each selected code object (lines/table.c), inside a
trace callback: nothing here may print or raise for a code object that Python
itself accepts; it warns of those that torch.compile has made.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from array import array
from types import CodeType

from tensortap.analysis import source
from tensortap.analysis.instructions import Instructions, pieces_by_line
from tensortap.analysis.paths import ATTRIBUTE, ITEM_BY, LOCAL, NO_PATH, PLAIN, Path, Paths
from tensortap.analysis.pieces import pieces
from tensortap.analysis.statement import (
    NOTHING,
    Does,
    Entries,
    Piece,
    Reads,
    Statement,
    Value,
    Write,
    Writes,
    site_number,
)
from tensortap.analysis.statements import Statements
from tensortap.compiled.dynamo import is_compiled_code

#: path, flags, first and number in `arrows`, first and number in `calls`, how many of these calls,
#: the first ones, it is the result of (or a part of that), first and number of its items in `parts`
Row = tuple[int, ...]


class Table:
    """The statements of a code object, as lines/table.c reads them (packed)."""

    def __init__(self, instructions: Instructions, paths: list[Path]) -> None:
        """Start with no statement."""
        self.paths = paths
        #: first instruction, end, line, flags, exit of a loop, first and number in `reads`, in
        #: `writes`, number of followers
        self.rows: list[Row] = []
        self.lines = instructions.lines  # of each code unit
        self.begins = instructions.begins  # of each code unit: where its instruction begins
        self.reads: list[int] = []  # paths
        self.writes: list[Row] = []
        self.arrows: list[int] = []  # positions in the reads of the statement
        self.calls: list[int] = []  # instructions whose call's result is in what is written
        self.parts: list[Row] = []  # items of lists and dicts that are built, arguments of calls
        self.part_keys: list[object] = []
        self.sites: list[Row] = []  # a call, and as a row of `writes` what it is given
        self.is_hidden = False  # .data or the like is used somewhere
        self.has_tight_loop = instructions.has_tight_loop()  # it goes round on one line
        self._position: dict[int, int] = {}  # in the reads of the statement that is being added

    def packed(self) -> tuple[object, ...]:
        """Return what lines/table.c reads, in its order: rows as C integers."""
        flat = itertools.chain.from_iterable
        row_at, most_reads, has_steps = [-1] * len(self.lines), 0, False  # of each unit: its row
        for i, (start, end, _, flags, _, _, reads, *_) in enumerate(self.rows):
            row_at[start:end] = [i] * (end - start)
            most_reads = max(most_reads, reads)
            has_steps = has_steps or bool(flags & Does.STEPS)
        paths = {base: i for i, (kind, base, *_) in enumerate(self.paths) if kind == LOCAL}
        slots = [paths.get(i, -1) for i in range(max(paths, default=-1) + 1)]
        lists = (
            *(flat(self.rows), row_at, slots, self.lines, self.begins, self.reads),
            *(flat(self.writes), self.arrows, self.calls, flat(self.parts)),
            flat(sorted(self.sites)),
        )
        arrays = [array("i", one).tobytes() for one in lists]
        answers = self.is_hidden, self.has_tight_loop, has_steps
        return (self.paths, *arrays, self.part_keys, most_reads, *answers)

    def add(self, piece: Piece) -> None:
        """Add a statement."""
        statement = piece.statement
        reads = _reads(statement, self.paths)
        self._position = {path: i for i, path in enumerate(reads)}
        for site, given in statement.calls.items():
            self.sites.append((site, *self._write(0, 0, given, given.entries or ())))
        first = len(self.writes)
        for path, one in statement.writes.items():
            if not (one.flags & Writes.SAME and one.flags & Writes.MAYBE):
                entries = _entries(one.entries)
                self.writes.append(self._write(path, one.flags, one, entries, statement.control))
        flags = piece.does
        if any(self.paths[path][0] != LOCAL for path in reads):
            flags |= Does.FAR
        written = {self._root(row[0]) for row in self.writes[first:]}
        if not written.isdisjoint(map(self._root, reads)):
            flags |= Does.SELFISH
        ranges = len(self.reads), len(reads), first, len(self.writes) - first
        head = piece.start, piece.end, piece.line, flags, piece.exit
        self.rows.append((*head, *ranges, piece.followers))
        self.reads.extend(reads)

    def _root(self, path: int) -> int:
        """Return the path of x for x.y[0]."""
        while self.paths[path][0] >= ATTRIBUTE:
            path = self.paths[path][1]
        return path

    def _write(
        self,
        path: int,
        flags: int,
        value: Value | Write,
        entries: Entries,
        control: Reads = NOTHING,
    ) -> Row:
        items = [self._sources(one.reads | control, one.direct) for _, one in entries]
        sources = self._sources(value.reads, value.direct)
        first = len(self.parts)
        self.parts.extend((path, flags, *item, 0, 0) for item in items)
        self.part_keys.extend(key for key, _ in entries)
        return (path, flags, *sources, first, len(items))

    def _sources(self, reads: Reads, direct: Reads) -> Row:
        found = sorted([self._position[read] for read in reads if read in self._position])
        made = sorted([site_number(number) for number in direct])
        others = sorted([site_number(one) for one in reads if one < NO_PATH and one not in direct])
        first = len(self.arrows), len(self.calls)
        self.arrows.extend(found)
        self.calls.extend((*made, *others))
        return first[0], len(found), first[1], len(made) + len(others), len(made)


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
        parts = pieces_by_line(instructions, paths)
    _find_followers(parts, instructions.lines)
    made = Table(instructions, paths.rows)
    for piece in parts:
        made.add(piece)
    made.is_hidden = any(
        one.flags & Does.DIGESTS and any(_hides(paths.rows[p]) for p in (*one.reads, *one.writes))
        for one in (piece.statement for piece in parts)
    )
    return made


def packed_table(code: CodeType) -> tuple[object, ...]:
    """Return the table of *code* for the extension."""
    if is_compiled_code(code):
        with contextlib.suppress(Exception):  # where warnings are errors
            warnings.warn(
                f"tensortap: the lines of {code.co_name} ({code.co_filename}:"
                f"{code.co_firstlineno}) are not seen: torch.compile runs them as one graph; "
                'torch.compiler.set_stance("force_eager") runs them as they are written',
                RuntimeWarning,
                stacklevel=2,
            )
    return table(code).packed()


def _hides(path: Path) -> bool:
    return path[0] == ATTRIBUTE and path[2] != "step"


def _find_steps(parts: list[Piece], lines: list[int]) -> None:
    """Mark those that have no line event and do more than the one before can be told with."""
    for last, piece in itertools.pairwise(parts):
        before, one = last.statement, piece.statement
        if not _is_inside(piece, lines) or piece.flags & Does.HANDLES or one.raises:
            continue
        if one.flags & Does.LOOPS and not before.writes and not before.flags & Does.BRANCHES:
            continue  # a loop takes its first item: told with what it goes over
        if (
            one.writes
            or one.flags & (Does.CALLS | Does.AUGMENTS)
            or (one.flags & Does.RETURNS and one.reads)
            or (one.flags & Does.OPERATES and not one.is_test)
        ):
            piece.flags |= Does.STEPS


def _is_inside(piece: Piece, lines: list[int]) -> bool:
    """Return whether a piece starts in the middle of a line, and so has no line event."""
    return piece.start > 0 and lines[piece.start] == lines[piece.start - 1]


def _find_followers(parts: list[Piece], lines: list[int]) -> None:
    """Find those that have no event of their own: they are told with the one before."""
    for last, piece in reversed([*itertools.pairwise(parts)]):
        if not _is_inside(piece, lines):
            continue
        if piece.does & (Does.STEPS | Does.LEADS):
            last.flags |= Does.LEADS
        is_idle = not piece.followers and not piece.statement.writes and not piece.does & Does.ACTS
        if not is_idle and not piece.does & (Does.HANDLES | Does.STEPS):
            last.followers = piece.followers + 1
    for i, piece in enumerate(parts):
        after = parts[i + 1 : i + 1 + piece.followers]
        if after and piece.does & (Does.BRANCHES | Does.DOUBTFUL):
            after[0].flags |= Does.DOUBTFUL
        if any(one.does & Does.ACTS for one in after):
            piece.flags |= Does.FOLLOWED


def _reads(statement: Statement, paths: list[Path]) -> list[int]:
    """Return the paths that a statement reads, without those that are only on the way to others."""
    used = set(statement.control)
    for path, write in statement.writes.items():
        used |= write.reads | {path}
    for given in statement.calls.values():
        used |= given.reads
    used = {path for path in used if path > NO_PATH}
    idle = statement.callees - used
    reads = [
        p for p in statement.reads if p in used or not (p in idle or _is_inner(p, statement, paths))
    ]
    reads += sorted(used - set(reads) - set(statement.writes))
    for path, write in statement.writes.items():
        if path in write.reads and path not in reads:
            reads.append(path)
    return reads


def _entries(entries: Entries) -> Entries:
    """Return the items of a list or dict that is built, if its keys are plain and differ."""
    is_plain = all(type(key) in PLAIN for key, _ in entries)
    return entries if is_plain and len(dict(entries)) == len(entries) else ()


def _is_inner(path: int, statement: Statement, paths: list[Path]) -> bool:
    """Return whether the path is only on the way to a longer one that is read too."""
    return any(
        paths[longer][1] == path for longer in statement.reads if paths[longer][0] >= ATTRIBUTE
    ) or any(
        paths[longer][0] == ITEM_BY and path in _key(paths[longer]) for longer in statement.reads
    )


def _key(path: Path) -> tuple[object, ...]:
    return path[2] if isinstance(path[2], tuple) else (path[2],)
