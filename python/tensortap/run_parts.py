"""What a run is made of, as `tensortap.run.Run` gives it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Note(NamedTuple):
    """A remark in a run."""

    step: int
    time: float  # seconds since 1970
    text: str
    rank: int


class NonFinite(NamedTuple):
    """The first NaN or Inf of a run."""

    name: str
    step: int
    call: int
    rank: int


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
    gone_values: int  # made room for newer ones
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
