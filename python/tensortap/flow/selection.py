"""Which code a chart is about.

Asked once for each code object, by the extension.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import os
import tempfile
from types import CodeType

from tensortap.files.owners import Owner, owner_of

EVERY_LINE = (0, 2**31 - 1)


class Selection:
    """Files under the working directory, or one file's lines."""

    def __init__(self) -> None:
        """Select nothing yet."""
        self.root = ""
        self.only: tuple[str, int, int] | None = None

    def enter(self, folder: str) -> bool:
        """Select the files under *folder*; return whether that changed anything."""
        root = os.path.join(os.path.realpath(folder), "")
        is_other = root != self.root
        self.root = root
        return is_other

    def keep(self, only: tuple[str, int, int] | None) -> bool:
        """Select only (file, first, last), or with None all; return whether anything changed."""
        if only is not None and not _is_typed(only[0]):
            only = (os.path.realpath(only[0]), only[1], only[2])
        is_other = only != self.only
        self.only = only
        return is_other

    def __call__(self, code: CodeType) -> tuple[int, int] | None:
        """Return the first and the last line wanted of *code*; None: not selected."""
        file = code.co_filename
        if self.only is not None:
            name, first, last = self.only
            is_it = file == name or (not _is_typed(file) and self._real(file) == name)
            return (first, last) if is_it else None
        is_wanted = owner_of(code) is Owner.PROGRAM and _is_under(self.root, file)
        return EVERY_LINE if is_wanted else None

    def _real(self, file: str) -> str:
        return os.path.realpath(os.path.join(self.root, file))


@functools.lru_cache(maxsize=4096)  # a file has many code objects, and the disk is asked
def _is_under(root: str, file: str) -> bool:
    """Return whether a file of the program is below *root*, or was typed."""
    if _is_typed(file):
        return True
    path = os.path.normpath(os.path.join(root, file))
    real = os.path.realpath(os.path.join(root, file))
    is_under = path.startswith(root) or real.startswith(root)  # a link is here too
    return is_under and owner_of(path) is Owner.PROGRAM and owner_of(real) is Owner.PROGRAM


def _is_cell(file: str) -> bool:
    """Return whether this is the name that ipykernel gives to a cell."""
    return os.path.basename(os.path.dirname(file)).startswith("ipykernel_") and file.startswith(
        tempfile.gettempdir()
    )


def _is_typed(file: str) -> bool:
    return file.startswith("<") or _is_cell(file)
