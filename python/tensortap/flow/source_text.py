"""The text of the statements that changed a tensor.

Source is looked for when a chart is drawn, never while the program runs.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from types import CodeType

Place = tuple[str, CodeType, int, bool]  # name, code object, line, is_source


def codes_of(places: list[Place]) -> list[str]:
    """Give the code of each node."""
    files: dict[str, _File] = {}
    texts = []
    for name, code, line, is_source in places:
        if is_source:
            texts.append(f"{name} (source)")
            continue
        file = code.co_filename
        if file not in files:
            files[file] = _File(file)
        texts.append(files[file].statement(line))
    return texts


class _File:
    """A source file, read and parsed at most once for a chart."""

    def __init__(self, name: str) -> None:
        self._lines = linecache.getlines(name)
        self._ends: dict[int, int] | None = None

    def statement(self, line: int) -> str:
        """Give the lines of the statement that begins on *line*; empty: no source."""
        if not 1 <= line <= len(self._lines):
            return ""
        if self._ends is None:
            self._ends = _ends("".join(self._lines))
        end = self._ends.get(line, line)
        return textwrap.dedent("".join(self._lines[line - 1 : end])).strip()


def _ends(source: str) -> dict[int, int]:
    """Map the first line of each statement to its last, without the body it may have."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a cell with magics
        return {}
    ends: dict[int, int] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        end = node.end_lineno or node.lineno
        body = getattr(node, "body", None)
        if body:
            first = body[0]
            begins = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", []))])
            end = max(node.lineno, begins - 1)
            while end > node.lineno and not source_line_ends(source, end):
                end -= 1
        ends[node.lineno] = max(end, ends.get(node.lineno, 0))
    return ends


def source_line_ends(source: str, line: int) -> bool:
    """Say whether a statement's head can end on *line*: with its colon."""
    text = source.splitlines()[line - 1].split("#")[0].rstrip()
    return text.endswith(":")
