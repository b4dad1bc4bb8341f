"""The session that the program runs in: where its warnings point, its notebook.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from tensortap.files.frames import frame_at
from tensortap.files.owners import Owner, owner_of

if TYPE_CHECKING:
    from tensortap import _core


def warn(
    text: str, category: type[Warning] = RuntimeWarning, *, run: _core.Recorder | None = None
) -> None:
    """Warn at the line of the program that led here: not one of ours, torch's or Python's.

    What is about a run that `tensortap run` opened is printed: the program did not ask for it,
    may have made warnings errors, or may ignore them.
    """
    frame, level = frame_at(0), 1
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
