"""The session that the program runs in: its own code, where its warnings point, its notebook.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensortap import _core

OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep


def warn(
    text: str, category: type[Warning] = RuntimeWarning, *, run: _core.Recorder | None = None
) -> None:
    """Warn at the line of the program that led here: not one of ours, torch's or contextlib's.

    What is about a run that `tensortap run` opened is printed: the program did not ask for it,
    may have made warnings errors, or may ignore them.
    """
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    libraries = (OURS, contextlib.__file__, os.path.dirname(torch or __file__) + os.sep)
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(libraries):
        frame, level = frame.f_back, level + 1
    if run is None or not run.is_by_command:
        warnings.warn(text, category, stacklevel=level)
        return
    is_over = frame.f_back is None  # the program has ended
    where = "" if is_over else f" ({frame.f_code.co_filename}, line {frame.f_lineno})"
    print(text + where, file=sys.stderr)


def library_folders() -> tuple[str, ...]:
    """Return the folders whose code is not the program's: Python's, what was installed, ours."""
    torch = sys.modules.get("torch")
    return _library_folders(len(sys.path), getattr(torch, "__file__", None))


@functools.lru_cache(maxsize=4)
def _library_folders(paths: int, torch: str | None) -> tuple[str, ...]:
    """Find them; that takes half a millisecond, and they hardly ever change."""
    import site
    import sysconfig

    found = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    found.update(getattr(site, "getsitepackages", list)())
    found |= {getattr(site, "USER_SITE", None) or "", os.path.dirname(torch or "")}
    return (*(os.path.join(folder, "") for folder in sorted(found) if folder), OURS)


def ipython() -> Any:
    """Return the running IPython, or None; a notebook's has a `kernel`."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()
