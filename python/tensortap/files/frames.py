"""Python's frames: who called, and where the program's own code is.

The only file that uses `sys._getframe`, which CPython documents as a detail of its own.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from tensortap import _core
from tensortap.files.owners import Owner


def frame_at(level: int) -> FrameType:
    """Return the frame of the function that asks (0), of the one that called it (1), and so on."""
    return sys._getframe(level + 1)


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield *frame*, the one that called it, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def foreign_frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the same without tensortap's own."""
    return (one for one in frames_from(frame) if _core._owner(one.f_code) != Owner.OURS)
