"""The instructions of a code object: where each stands in the source, and where control goes.

This and `names.py` are all that depends on the version of Python.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import dis
from types import CodeType

from tensortap.analysis.source import Span
from tensortap.analysis.statement import site_number
from tensortap.analysis.value import NOTHING, Reads


class Instructions:
    """The instructions of one code object; a unit is two bytes, the first one is 0."""

    def __init__(self, code: CodeType) -> None:
        """Read the instructions of *code*."""
        self.all = [*dis.get_instructions(code)]
        count = len(code.co_code) // 2
        self.lines = [0] * count
        for start, end, line in code.co_lines():
            self.lines[start // 2 : end // 2] = [line or 0] * ((end - start) // 2)
        self.begins = [0] * count  # of each unit: where its instruction begins
        self.ends = [*(i.offset // 2 for i in self.all[1:]), count]
        for i, end in zip(self.all, self.ends, strict=True):
            start = i.offset // 2
            self.begins[start:end] = [start] * (end - start)
        self.handlers = {
            entry.target // 2
            for entry in dis._parse_exception_table(code)  # type: ignore[attr-defined]
        }
        self._sites: dict[Span, list[int]] = {}
        self._call_sites: dict[tuple[int, int], list[tuple[tuple[int, int], int]]] = {}
        self.places = [_place_of(i) for i in self.all]
        for i, place in zip(self.all, self.places, strict=True):
            if place is not None:
                number = site_number(i.offset // 2)
                self._sites.setdefault(place, []).append(number)
                if i.opname.startswith("CALL"):
                    self._call_sites.setdefault(place[1], []).append((place[0], number))

    def sites(self, node: ast.AST) -> Reads:
        """Return what stands for the instructions of this very node."""
        first, last = place = _span(node)
        if isinstance(node, ast.Call):  # a method's call begins where its name does
            found = self._call_sites.get(last, ())
            return frozenset([number for start, number in found if start >= first])
        numbers = self._sites.get(place)
        return frozenset(numbers) if numbers is not None else NOTHING

    def has_tight_loop(self) -> bool:
        """Say whether a loop goes round on one line."""
        return any(
            "BACKWARD" in i.opname and self.lines[i.offset // 2] == self.lines[int(i.argval) // 2]
            for i in self.all
            if i.argval is not None and i.opname.startswith(("JUMP", "POP_JUMP"))
        )


def _span(node: ast.AST) -> Span:
    """Return where a node stands, without its decorators."""
    first = node.lineno, node.col_offset  # type: ignore[attr-defined]
    return first, (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def _place_of(instruction: dis.Instruction) -> Span | None:
    """Return where an instruction stands in the source; None: nowhere."""
    positions = instruction.positions
    if positions is None:
        return None
    a, b, c, d = positions
    return None if a is None or b is None or c is None or d is None else ((a, c), (b, d))
