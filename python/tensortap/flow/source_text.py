"""The text of the statements that changed a tensor.

Source is looked for when a chart is drawn, never while the program runs.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from types import CodeType

from tensortap.analysis.source import parse

Place = tuple[str, CodeType, int, bool]  # name, code object, line, is_source


def codes_of(places: list[Place]) -> list[str]:
    """Return the code of each node."""
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
        """Return the lines of the statement that begins on *line*; empty: no source."""
        if not 1 <= line <= len(self._lines):
            return ""
        if self._ends is None:
            self._ends = _ends(self._lines)
        end = self._ends.get(line, line)
        return textwrap.dedent("".join(self._lines[line - 1 : end])).strip()


def _ends(lines: list[str]) -> dict[int, int]:
    """Map the first line of each statement to its last, without the body it may have."""
    tree = parse("".join(lines))
    ends: dict[int, int] = {}
    for node in ast.walk(tree) if tree is not None else ():  # None: a cell with magics
        if not isinstance(node, ast.stmt):
            continue
        end = node.end_lineno or node.lineno
        begins = _body_begins(node)
        if begins is not None:
            end = max(node.lineno, begins - 1)
            while end > node.lineno and not _is_end_of_head(lines[end - 1]):
                end -= 1
        ends[node.lineno] = max(end, ends.get(node.lineno, 0))
    return ends


def _body_begins(statement: ast.stmt) -> int | None:
    """Return the first line of the body of a compound statement."""
    if isinstance(statement, ast.Match):
        return statement.cases[0].pattern.lineno
    body: list[ast.stmt] | None = getattr(statement, "body", None)
    if not body:
        return None
    decorators: list[ast.expr] = getattr(body[0], "decorator_list", [])
    return min([body[0].lineno, *(decorator.lineno for decorator in decorators)])


def _is_end_of_head(line: str) -> bool:
    return line.split("#")[0].rstrip().endswith(":")
