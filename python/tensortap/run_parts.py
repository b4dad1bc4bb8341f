"""What a run is made of, as `tensortap.run.Run` gives it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from tensortap._core import Stats


class Note(NamedTuple):
    """A remark in a run."""

    step: int
    time: float  # seconds since 1970
    text: str
    rank: int


class Fed(NamedTuple):
    """A finite tensor that fed one that is not."""

    role: Literal["before", "parameter", "previous"]
    name: str
    step: int
    stats: Stats | None  # None: a number


class NonFinite(NamedTuple):
    """The first NaN or Inf of a run: where it was born."""

    name: str
    step: int
    call: int
    rank: int
    birth: Literal["forward", "update", "backward", "loss"]
    order: int  # its place among the points of its step, from 1 ...
    of: int  # ... to this
    reached: int  # sites that have been non-finite since, this one too
    stats: Stats | None  # None: a number
    fed_by: tuple[Fed, ...]


@dataclass(frozen=True)
class FileCheck:
    """What a check of one file found."""

    path: str
    blocks: int
    points: int
    values: int
    damaged_blocks: int
    damaged_bytes: int
    torn_bytes: int  # an unfinished block at the end: not damage
    gone_values: int  # evicted to stay within max_bytes
    closed: bool
    first: str  # where the first damage is, and of what kind


@dataclass(frozen=True)
class Check:
    """What a check of a run found."""

    files: tuple[FileCheck, ...]

    @property
    def ok(self) -> bool:
        """Nothing is damaged."""
        return all(file.damaged_blocks == 0 and file.damaged_bytes == 0 for file in self.files)

    def __bool__(self) -> bool:
        return self.ok


class File(NamedTuple):
    """One file of a run: a rank."""

    path: str
    rank: int
    closed: bool
    bytes: int
    points: int
    first_step: int
    last_step: int
    dropped_events: int
    damaged_bytes: int
    stopped: str | None  # "stopped by ValueError: …": what ended it; None: no exception
