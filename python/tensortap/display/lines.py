"""Lines of text that fit the terminal.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import shutil
import textwrap

INDENT = 4  # of a line that continues another


def wrapped(line: str) -> str:
    """Return a line in several that fit the terminal; as it is where there is none."""
    columns = shutil.get_terminal_size((0, 0)).columns
    if len(line) <= columns or not columns:
        return line
    inner = len(line) - len(line.lstrip()) + INDENT
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=" " * inner,
        break_long_words=False,
        break_on_hyphens=False,
    )
