"""The session that the program runs in: its own code, where its warnings point, its notebook.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
import warnings
from enum import IntEnum
from types import CodeType
from typing import Any

from tensortap import _core


class Owner(IntEnum):
    """Whose some code is; python/ext/binding/owner.c decides."""

    PROGRAM = 0  # the user's: also what was typed, and cells of notebooks
    PACKAGE = 1  # something that was installed
    PYTHON = 2  # its library, and what that generates
    TORCH = 3
    OURS = 4


def owner_of(code: CodeType | str) -> Owner:
    """Return whose a code object is, or a file of this name."""
    return Owner(_core._owner(code))


def warn(
    text: str, category: type[Warning] = RuntimeWarning, *, run: _core.Recorder | None = None
) -> None:
    """Warn at the line of the program that led here: not one of ours, torch's or Python's.

    What is about a run that `tensortap run` opened is printed: the program did not ask for it,
    may have made warnings errors, or may ignore them.
    """
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and owner_of(frame.f_code) > Owner.PACKAGE:
        frame, level = frame.f_back, level + 1
    if run is None or not run.is_by_command:
        warnings.warn(text, category, stacklevel=level)
        return
    is_over = frame.f_back is None  # the program has ended
    where = "" if is_over else f" ({frame.f_code.co_filename}, line {frame.f_lineno})"
    print(text + where, file=sys.stderr)


def ipython() -> Any:
    """Return the running IPython, or None; a notebook's has a `kernel`."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()
