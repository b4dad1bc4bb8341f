"""The plain variables of the program's loop: what a fault may depend on that no snapshot restores.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from tensortap import _core
from tensortap.files.frames import frame_at, frames_from
from tensortap.files.owners import Owner, owner_of

MOST_FRAMES = 16
MOST_VARIABLES = 64  # of a frame


class Variable(NamedTuple):
    """A number, a boolean or a short text that a frame had."""

    file: str
    line: int  # where the frame was
    name: str
    value: bool | int | float | str


def variables() -> list[Variable]:
    """Return the plain variables of the program's frames and of packages, the inner first."""
    found: list[Variable] = []
    frames = (one for one in frames_from(frame_at(1)) if owner_of(one.f_code) <= Owner.PACKAGE)
    for frame in islice(frames, MOST_FRAMES):
        file = frame.f_code.co_filename
        plain = list(_core._plain_locals(frame).items())[:MOST_VARIABLES]
        found += [Variable(file, frame.f_lineno, name, value) for name, value in plain]
    return found


def changed(then: Iterable[Any], now: Iterable[Variable]) -> list[tuple[Variable, Variable]]:
    """Return the variables that both have with other values; *then* is as a file has them.

    Those of packages are returned only if the program itself has none.
    """
    known = {(one.file, one.name): one for one in reversed(list(now))}
    pairs = []
    for one in then:
        old = Variable(*one)
        new = known.get((old.file, old.name))
        if (
            new is not None and new.value != old.value and old.value == old.value
        ):  # NaN: not a change
            pairs.append((old, new))
    own = [pair for pair in pairs if owner_of(pair[0].file) is Owner.PROGRAM]
    return own or pairs
