"""A statement, as the line source knows it: what it reads, writes and may do.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tensortap.analysis.paths import NO_PATH
from tensortap.analysis.value import NOTHING, Entries, Reads, Value

# Flags of a statement; lines/table.h knows them.
CALLS, OPERATES, DIGESTS, HANDLES, RETURNS, LOOPS, AUGMENTS, BRANCHES = (1 << i for i in range(8))
DOUBTFUL = 1 << 9  # its store may not have run: the end of an `async for`
STEPS = 1 << 13  # starts in the middle of a line, and must be told of by itself
# Flags of a write.
SAME, IN_PLACE, MAYBE = (1 << i for i in range(3))
PART = 1 << 4


@dataclass(slots=True)
class Statement:
    """What one statement, or the head of a compound one, does."""

    flags: int = 0
    reads: dict[int, None] = field(default_factory=dict)  # paths, in their order
    callees: set[int] = field(default_factory=set)  # read only to be called
    writes: dict[int, tuple[int, Reads]] = field(default_factory=dict)  # flags, sources
    direct: dict[int, Reads] = field(default_factory=dict)  # of each write, as in Value
    entries: dict[int, Entries] = field(default_factory=dict)  # the same
    calls: dict[int, Value] = field(default_factory=dict)  # by their sites: what each is given
    control: Reads = NOTHING  # what decided which way it went
    is_test: bool = False  # it ends in a jump
    raises: bool = False

    def write(self, path: int, flags: int, reads: Reads) -> None:
        """Note that *path* gets a value computed from *reads*."""
        if path in self.writes:
            old_flags, old = self.writes[path]
            self.entries.pop(path, None)
            flags, reads = old_flags & flags, old | reads
        self.writes[path] = (flags, reads | self.control)

    def store(self, path: int, value: Value) -> None:
        """Note that *path* is assigned a value."""
        flags = (SAME if value.path == path else 0) | (PART if value.is_part else 0)
        if value.entries is not None and path not in self.writes:
            self.entries[path] = value.entries
        self.write(path, flags, value.reads)
        self.direct[path] = self.direct.get(path, NOTHING) | value.direct


@dataclass(slots=True)
class Piece:
    """A run of instructions that belong to one statement."""

    start: int
    end: int
    line: int
    statement: Statement
    exit: int = 0  # of a loop header: where it goes when there is no further item
    flags: int = 0  # HANDLES, STEPS: of these instructions, not of all of the statement's


def site_number(unit: int) -> int:
    """Return what stands for the call at an instruction where the numbers of paths do.

    It is its own inverse.
    """
    return NO_PATH - 1 - unit
