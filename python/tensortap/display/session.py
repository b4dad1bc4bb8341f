"""The session that the program runs in: where its warnings point, and its notebook.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from typing import Any

OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep


def warn(text: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the line of the program that led here: not one of ours, torch's or contextlib's."""
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    libraries = (OURS, contextlib.__file__, os.path.dirname(torch or __file__) + os.sep)
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(libraries):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def ipython() -> Any:
    """Return the running IPython, or None; a notebook's has a `kernel`."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()
