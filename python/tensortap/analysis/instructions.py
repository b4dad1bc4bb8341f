"""The instructions of a code object: where each stands in the source, and where control goes.

All that depends on the version of Python is here.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import dis
from types import CodeType

from tensortap.analysis.paths import Paths
from tensortap.analysis.source import Span
from tensortap.analysis.statement import NOTHING, Does, Piece, Reads, Statement, site_number

STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
LOADS = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF")


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
        first, last = _span(node)
        if isinstance(node, ast.Call):  # a method's call begins where its name does
            found = self._call_sites.get(last, ())
            return frozenset([number for start, number in found if start >= first])
        return self.sites_at(node)

    def sites_at(self, node: ast.AST) -> Reads:
        """Return what stands for all instructions that have the place of a node."""
        return frozenset(self._sites.get(_span(node), NOTHING))

    def has_tight_loop(self) -> bool:
        """Return whether a loop runs on one line."""
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


def pieces_by_line(instructions: Instructions, paths: Paths) -> list[Piece]:
    """Return a piece for each run of instructions on one line, for code without source.

    Changes are reported by name; where a value comes from is not known.
    """
    found: list[Piece] = []
    owner = None  # the variable that the instruction before has loaded
    for i, end in zip(instructions.all, instructions.ends, strict=True):
        unit = i.offset // 2
        line, is_handler = instructions.lines[unit], unit in instructions.handlers
        if not found or is_handler or line not in (0, found[-1].line):
            # It may do anything, and leave off anywhere.
            statement = Statement(Does.CALLS | Does.DIGESTS | Does.DOUBTFUL)
            found.append(Piece(unit, end, line, statement, flags=Does.HANDLES if is_handler else 0))
        piece = found[-1]
        piece.end = end
        names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
        if i.opname.startswith("RETURN_"):
            piece.statement.flags |= Does.RETURNS
        elif i.opname == "STORE_ATTR" and owner is not None:
            piece.statement.write(paths.attribute(owner, i.argval), 0, NOTHING)
        elif i.opname == "STORE_FAST_LOAD_FAST":
            piece.statement.write(paths.variable(names[0]), 0, NOTHING)
        elif i.opname.startswith(STORES):
            for name in names:
                piece.statement.write(paths.variable(name), 0, NOTHING)
        owner = None
        if i.opname.startswith(LOADS) and isinstance(names[-1], str):
            owner = paths.variable(names[-1])
    return found
