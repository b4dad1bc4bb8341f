"""Lines of the tree that are wider than the terminal go on below, behind their guides.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
import unicodedata

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_GUIDES = re.compile(r"((?:│   )*)(┌── |├─ |└─ |)")
#: where a line may end, the best first
_ENDS = (" | ", " <- ", ", ", " ")
_LEAST = 20  # columns for the text, however deep


def wrap(text: str, columns: int) -> str:
    """Return *text* with no line wider than *columns*, if that leaves room for words."""
    return "\n".join("\n".join(_wrap_line(line, columns)) for line in text.split("\n"))


def width(text: str) -> int:
    """Return how many columns *text* takes; colours take none, Chinese letters two."""
    bare = _ANSI.sub("", text) if "\x1b" in text else text
    if bare.isascii():
        return len(bare)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in bare
    )


def _wrap_line(line: str, columns: int) -> list[str]:
    if width(line) <= columns:
        return [line]
    match = _GUIDES.match(_ANSI.sub("", line))
    guides, elbow = (match[1], match[2]) if match is not None else ("", "")
    indent = (
        guides + ("    " if elbow == "└─ " else "│   " if elbow else "  ") + ("  " if elbow else "")
    )
    room = max(columns - len(indent), _LEAST)
    rows: list[str] = []
    ink = ""
    rest, most = line, max(columns, len(guides) + len(elbow) + _LEAST)
    while width(rest) > most:
        at = _end(rest, most, len(guides) + len(elbow) if not rows else 0)
        row, rest = rest[:at].rstrip(), rest[at:].lstrip()
        for code in _ANSI.findall(row):
            ink = "" if code == "\x1b[0m" else code
        rows.append(row + ("\x1b[0m" if ink else ""))
        rest, most = ink + rest, room
    rows.append(rest)
    if "\x1b" in line:
        indent = f"\x1b[2m{indent}\x1b[0m"  # as the guides of the first row
    return [rows[0], *(indent + row for row in rows[1:])]


def _end(text: str, most: int, least: int) -> int:
    """Return where to end a row of *most* columns; the first *least* characters stay whole."""
    fits = _fitting(text, most)
    for end in _ENDS:
        at = text.rfind(end, 0, fits + 1)
        if at > max(least, fits // 3):
            return at + (len(end.rstrip()) if end in (", ",) else 0)
    return max(fits, 1)


def _fitting(text: str, most: int) -> int:
    """Return how many characters fit into *most* columns, never ending inside a colour code."""
    at = used = 0
    while at < len(text):
        code = _ANSI.match(text, at)
        if code is not None:
            at = code.end()
            continue
        used += width(text[at])
        if used > most:
            break
        at += 1
    return at
