"""Split the instructions of a code object into its statements.

A piece is a run of instructions that belong to one statement, or to one part of it: the head
of a loop evaluates what it goes over, then takes an item; a `with` enters and exits. The
compiler may repeat a statement (`finally`) or put it elsewhere; then it has several pieces.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from tensortap.analysis.instructions import Instructions
from tensortap.analysis.source import DEFINITIONS, Scope, Span, span
from tensortap.analysis.statement import Does, Piece, Statement
from tensortap.analysis.statements import Head, Statements


class Part(Enum):
    """Which part of a statement a run of instructions is."""

    WHOLE = auto()
    NEXT = auto()  # of a loop: takes an item
    EXIT = auto()  # of a `with` or an except clause
    END = auto()  # the `return None` at the end of a function
    CLEANUP = auto()  # what an exception runs without a clause of the user's


@dataclass(slots=True)
class _Run:
    """Consecutive instructions of one part of a statement."""

    head: Head | None
    part: Part
    start: int
    end: int
    exit: int = 0


def pieces(scope: Scope, instructions: Instructions, statements: Statements) -> list[Piece]:
    """Return the pieces of a function, class, module or lambda, by their instructions."""
    heads = _Heads(scope)
    runs = _runs(heads, instructions)
    made: dict[tuple[int, Part], Statement] = {}
    found = []
    for run in runs:
        key = id(run.head), run.part
        if key not in made:
            made[key] = _follow(run, runs, heads, statements)
        lines = [line for line in instructions.lines[run.start : run.end] if line]
        is_first = run.head is None and run.part is Part.WHOLE
        line = 0 if is_first else min(lines, default=0)
        flags = Does.HANDLES if run.start in instructions.handlers else 0
        found.append(Piece(run.start, run.end, line, made[key], run.exit, flags))
    return found


def _follow(run: _Run, runs: list[_Run], heads: _Heads, statements: Statements) -> Statement:
    head = run.head
    if run.part is Part.END:
        return Statement(Does.RETURNS)
    if head is None:
        return Statement()
    if run.part is Part.EXIT:
        return Statement(Does.CALLS)
    units: list[int] = []
    if isinstance(head, (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)):
        for one in runs:
            if one.head is head and one.part is run.part:
                units += range(one.start, one.end)
    if run.part is Part.NEXT and isinstance(head, (ast.For, ast.AsyncFor)):
        return statements.follow_next(head, units)
    if isinstance(head, ast.match_case):
        match = heads.around[id(head)]
        assert isinstance(match, ast.Match)
        return statements.follow_case(head, match)
    return statements.follow(head, units)


class _Heads:
    """The heads of a scope's statements, by where they stand."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._heads: list[Head] = []
        self._spans: list[Span] = []
        self._around: list[int] = []  # the number of the one around it, or -1
        self.around: dict[int, Head] = {}  # by id(): the one around it
        if not isinstance(scope, ast.Lambda):
            self._add_all(scope.body, -1)
        self._starts = [first for first, _ in self._spans]

    def _add_all(self, nodes: Iterable[Head], around: int) -> None:
        for node in nodes:
            number = len(self._heads)
            self._heads.append(node)
            self._around.append(around)
            if around >= 0:
                self.around[id(node)] = self._heads[around]
            if isinstance(node, ast.match_case):
                first, last = span(node.pattern)
                self._spans.append((first, span(node.guard)[1] if node.guard else last))
                self._add_all(node.body, around)
                continue
            self._spans.append(span(node))
            if not isinstance(node, DEFINITIONS):
                for name in ("body", "handlers", "cases", "orelse", "finalbody"):
                    self._add_all(getattr(node, name, ()), number)

    def at(self, place: Span) -> Head | None:
        """Return the innermost head around a place."""
        if isinstance(self._scope, ast.Lambda):
            return self._scope
        number = bisect.bisect_right(self._starts, place[0]) - 1
        while number >= 0 and self._spans[number][1] < place[1]:
            number = self._around[number]
        return self._heads[number] if number >= 0 else None

    def has(self, outer: Head, inner: Head | None) -> bool:
        """Return whether a statement is in the body of another."""
        while inner is not None:
            inner = self.around.get(id(inner))
            if inner is outer:
                return True
        return False


#: These end what an exception runs without a clause of the user's.
CLEANED_UP = {"RERAISE", "END_ASYNC_FOR", "CLEANUP_THROW"}


def _runs(heads: _Heads, instructions: Instructions) -> list[_Run]:
    runs: list[_Run] = []
    returning: Head | None = None  # the last `return`, which a `finally` may have interrupted
    before = ""
    each = zip(instructions.all, instructions.ends, instructions.places, strict=True)
    for i, end, place in each:
        unit, last = i.offset // 2, runs[-1] if runs else None
        is_handler = unit in instructions.handlers
        head, part = heads.at(place) if place is not None else None, Part.WHOLE
        if is_handler and i.opname != "PUSH_EXC_INFO":
            head, part = None, Part.CLEANUP
        elif last is not None and not is_handler:
            if last.part is Part.CLEANUP and before not in CLEANED_UP:
                head, part = None, Part.CLEANUP
            elif place is None:
                head, part = last.head, last.part
            elif last.head is None and last.start in instructions.handlers:
                last.head = head  # an except clause that begins nowhere
            elif last.head is head and last.part is Part.NEXT:
                part = Part.NEXT
        if isinstance(head, (ast.For, ast.AsyncFor)):
            if i.opname in ("FOR_ITER", "GET_ANEXT"):
                part = Part.NEXT
            elif i.opname in ("END_FOR", "POP_ITER", "END_ASYNC_FOR"):
                head, part = None, Part.WHOLE
        if i.opname in ("RETURN_VALUE", "RETURN_CONST"):
            if isinstance(head, (ast.Return, ast.Lambda)):
                pass
            elif i.opname == "RETURN_CONST" or before == "LOAD_CONST" or returning is None:
                head, part = None, Part.END
            else:
                head, part = returning, Part.WHOLE
        returning = head if isinstance(head, ast.Return) else returning
        if last is None or is_handler or (last.head, last.part) != (head, part):
            start = unit
            if part is Part.END and last is not None and before == "LOAD_CONST":
                start = last.end = last.end - 1  # it loads the None that is returned
                if last.start == last.end:
                    runs.pop()
            runs.append(_Run(head, part, start, end))
        runs[-1].end = end
        if i.opname == "FOR_ITER":
            runs[-1].exit = int(i.argval) // 2
        before = i.opname
    _find_exits(runs, heads, instructions)
    return [run for run in runs if run.part is not Part.CLEANUP]


def _find_exits(runs: list[_Run], heads: _Heads, instructions: Instructions) -> None:
    """Separate the ends of `with` statements and except clauses from their beginnings."""
    begun: set[int] = set()
    following: list[Head | None] = [None] * len(runs)  # the head of the next run of another
    for number in range(len(runs) - 2, -1, -1):
        after = runs[number + 1].head
        following[number] = after if after is not runs[number].head else following[number + 1]
    for run, after in zip(runs, following, strict=True):
        head = run.head
        if isinstance(head, (ast.With, ast.AsyncWith)) and run.part is Part.WHOLE:
            is_handler = run.start in instructions.handlers
            if is_handler or not heads.has(head, after):
                run.part = Part.EXIT
        elif isinstance(head, ast.ExceptHandler) and id(head) in begun:
            run.part = Part.EXIT
        begun.add(id(head))
