"""Find out whose code it is: the program's, a package's, Python's, torch's or ours.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from enum import IntEnum
from types import CodeType

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
