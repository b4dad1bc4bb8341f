"""Python's frames: who called, and where the program's own code is.

The only file that uses `sys._getframe`, which CPython documents but does not promise.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from tensortap import _core
from tensortap.files.owners import Owner


def frame_above(level: int = 0) -> FrameType:
    """Return the frame that called the caller of this function, or one *level* further out."""
    return sys._getframe(level + 2)


def frames_above(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield *frame* and those that it was called from, without tensortap's own."""
    while frame is not None:
        if _core._owner(frame.f_code) != Owner.OURS:
            yield frame
        frame = frame.f_back
