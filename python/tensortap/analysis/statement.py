"""Where values come from, and what statements do with them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tensortap.analysis.paths import NO_PATH, PLAIN, Formula

#: Numbers of paths, and of calls (below NO_PATH), that a value was computed from.
Reads = frozenset[int]
NOTHING: Reads = frozenset()
#: Keys, and where what is there comes from.
Entries = tuple[tuple[Any, "Value"], ...]

LONGEST = 16  # lines/path.c has room for no more


@dataclass(slots=True)
class Value:
    """Where a value comes from. Never changed after it was made."""

    reads: Reads = NOTHING
    path: int = NO_PATH  # it is exactly what is there
    direct: Reads = NOTHING  # calls whose result, or a part of it, this is or holds
    is_part: bool = False  # taken out of something as it is: a loop's item, an unpacked one
    const: tuple[Any] | None = None
    parts: Sequence[Value] | None = None  # of a tuple or list that was built here
    entries: Entries | None = None  # of a list or dict that was built here, by their keys
    formula: Formula | None = None  # how it was computed, if it may be a key
    is_range: bool = False
    #: An in-place method's result is what is at this path; with the name of a method of it.
    receiver: tuple[int, str] | None = None


def join(values: Sequence[Value]) -> Value:
    """Return where what is built of the values, or is one of them, comes from."""
    return Value(union(values), direct=NOTHING.union(*[value.direct for value in values]))


def union(values: Iterable[Value]) -> Reads:
    """Return what all of them were computed from."""
    return NOTHING.union(*[value.reads for value in values])


def formula(values: Iterable[Value], *last: Any) -> Formula | None:
    """Return how lines/path.c can compute a key from the values; None: not possible.

    `xs[i - 1]`, `cache[layer, "k"]` and `cache[f"k{i}"]` name an item as well as `xs[0]` does.
    """
    made: list[Any] = []
    for value in values:
        part = value.formula
        if value.const is not None:
            part = ((value.const[0],),) if type(value.const[0]) in PLAIN else None
        elif value.path != NO_PATH:
            part = (value.path,)
        elif value.parts is not None:
            part = formula(value.parts, -len(value.parts))
        if part is None:
            return None
        made += part
    return (*made, *last) if len(made) < LONGEST else None


class Does:
    """Flags of a statement; lines/table.h knows their numbers."""

    CALLS, OPERATES, DIGESTS, HANDLES, RETURNS, LOOPS, AUGMENTS, BRANCHES = (
        1 << i for i in range(8)
    )
    FAR = 1 << 8  # reads more than locals
    DOUBTFUL = 1 << 9  # its store may not have run: after a branch, or the end of an `async for`
    FOLLOWED = 1 << 10  # by one that acts and has no event
    SELFISH = 1 << 11  # stores what it reads, or a part of it
    STEPS = 1 << 13  # starts in the middle of a line, and needs an event of its own
    LEADS = 1 << 14  # one with STEPS comes after it on its line
    ACTS = CALLS | OPERATES | AUGMENTS


class Writes:
    """Flags of a write; lines/table.h knows their numbers."""

    SAME, IN_PLACE, MAYBE = (1 << i for i in range(3))
    PART = 1 << 4


class Write(NamedTuple):
    """What is written to a path; *direct* and *entries* as in Value."""

    flags: int
    reads: Reads
    direct: Reads
    entries: Entries


@dataclass(slots=True)
class Statement:
    """What one statement, or the head of a compound one, does."""

    flags: int = 0
    reads: dict[int, None] = field(default_factory=dict)  # paths, in their order
    callees: set[int] = field(default_factory=set)  # read only to be called
    writes: dict[int, Write] = field(default_factory=dict)
    calls: dict[int, Value] = field(default_factory=dict)  # by their sites: what each is given
    control: Reads = NOTHING  # what decided which way it went
    is_test: bool = False  # it ends in a jump
    raises: bool = False

    def write(
        self, path: int, flags: int, reads: Reads, direct: Reads = NOTHING, entries: Entries = ()
    ) -> None:
        """Note that *path* gets a value computed from *reads*."""
        old = self.writes.get(path)
        if old is not None:
            flags, reads, direct = old.flags & flags, old.reads | reads, old.direct | direct
        reads |= self.control
        self.writes[path] = Write(flags, reads, direct, entries if old is None else ())

    def store(self, path: int, value: Value) -> None:
        """Note that *path* is assigned a value."""
        flags = (Writes.SAME if value.path == path else 0) | (Writes.PART if value.is_part else 0)
        self.write(path, flags, value.reads, value.direct, value.entries or ())


@dataclass(slots=True)
class Piece:
    """A run of instructions that belong to one statement."""

    start: int
    end: int
    line: int
    statement: Statement
    exit: int = 0  # of a loop header: where it goes when there is no further item
    flags: int = 0  # of these instructions, not of all of the statement's
    followers: int = 0  # pieces after it that have no event of their own

    @property
    def does(self) -> int:
        """All flags."""
        return self.statement.flags | self.flags


def site_number(unit: int) -> int:
    """Return what stands for the call at an instruction where the numbers of paths do.

    It is its own inverse.
    """
    return NO_PATH - 1 - unit
