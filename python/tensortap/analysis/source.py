"""Find the syntax tree of a code object.

The source comes from `linecache`, which also knows the cells of a notebook. A file may have
been edited since it was imported, or carry the name of another one: the tree counts only if
compiling it gives the same instructions at the same places.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import NamedTuple

MOST_FILES = 16  # trees that are kept
#: co_flags that are the compiler's `from __future__` flags too: a notebook's cells inherit them.
FUTURE = 0x1FE0000
IS_ASYNC = 0x280  # CO_COROUTINE, CO_ASYNC_GENERATOR
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)

Place = tuple[int, int]  # line, column
Span = tuple[Place, Place]
#: A function, a class, a lambda, or the statements of a module.
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.Module


class Found(NamedTuple):
    """The syntax tree of a code object."""

    node: Scope
    class_name: str  # of the class around it, which mangles its private names; "": none


def span(node: ast.AST) -> Span:
    """Return where a node begins, its decorators included, and where it ends."""
    line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
    decorators = getattr(node, "decorator_list", None)
    if decorators:
        line, column = decorators[0].lineno, 0
    return (line, column), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def find(code: CodeType) -> Found | None:
    """Return the syntax tree of *code*; None: its source is not known, or not the same."""
    if all(column is None for _, _, column, _ in code.co_positions()):
        return None  # compiled with -X no_debug_ranges
    name = code.co_filename
    file = _files.pop(name, None) or _File([])
    found = file.find(code)
    if found is None:  # the first time, or it was edited and imported again
        linecache.checkcache(name)
        lines = linecache.getlines(name)
        if lines != file.lines:
            file = _File(lines)
            found = file.find(code)
    while len(_files) >= MOST_FILES:
        del _files[next(iter(_files))]
    _files[name] = file
    return found


class _File:
    """A source file, compiled once; functions are parsed when they are asked for."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._codes: dict[tuple[str, int], list[CodeType]] = {}
        try:
            with _silence():
                code = compile("".join(lines), "<source>", "exec", dont_inherit=True)
            self._add(code)
        except UNREADABLE:  # a cell with a top-level await, or with magics
            pass

    def _add(self, code: CodeType) -> None:
        self._codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        for const in code.co_consts:
            if isinstance(const, CodeType):
                self._add(const)

    def find(self, code: CodeType) -> Found | None:
        if not self.lines:
            return None
        twins = self._codes.get((code.co_name, code.co_firstlineno), [])
        is_same = any(_are_same(code, twin) for twin in twins)
        if code.co_name.startswith("<") and code.co_name != "<lambda>":
            return self._find_module(code, is_same=is_same)
        node = self._find_node(code) if twins else None
        if node is None or not (is_same or _differ_in_asserts(code, twins, node)):
            return None
        is_class = isinstance(node, ast.ClassDef)
        return Found(node, code.co_name if is_class else _class_of(code.co_qualname))

    @functools.cached_property
    def _tree(self) -> ast.Module:
        return parse("".join(self.lines)) or ast.Module([], [])

    def _find_node(self, code: CodeType) -> Scope | None:
        if code.co_name == "<lambda>":
            places = [place for place in code.co_positions() if None not in place and place[3]]
            return next((one for one in _lambdas(self._tree) if _holds(one, places)), None)
        first = code.co_firstlineno
        # Its own lines are enough, at the same places as in the file.
        lines = self.lines[first - 1 : max(_lines(code))]
        around = "if 1:\n" if lines[0][:1].isspace() else "\n"
        tree = parse("\n" * (first - 2) + around * (first > 1) + "".join(lines))
        own = tree.body[0] if tree is not None else None
        own = own.body[0] if isinstance(own, ast.If) else own
        for one in (own,) if own is not None else ast.walk(self._tree):
            if isinstance(one, DEFINITIONS) and (one.name, span(one)[0][0]) == (
                code.co_name,
                first,
            ):
                return one
        return None

    def _find_module(self, code: CodeType, *, is_same: bool) -> Found | None:
        """Return the module, or those of its statements that a notebook compiled together."""
        if is_same:
            return Found(self._tree, "")
        lines = [line for _, _, line in code.co_lines() if line]
        if not lines:
            return None
        body = [
            one for one in self._tree.body if min(lines) <= one.lineno and _last(one) <= max(lines)
        ]
        flags = code.co_flags & FUTURE
        if code.co_flags & IS_ASYNC:
            flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        for made, mode in (ast.Module(body, []), "exec"), (ast.Interactive(body), "single"):
            try:
                with _silence():
                    twin = compile(made, "<source>", mode, flags, dont_inherit=True)
            except UNREADABLE:
                continue
            if _are_same(code, twin):
                return Found(ast.Module(body, []), "")
        return None


_files: dict[str, _File] = {}  # by name, the one that was used last at the end


@contextmanager
def _silence() -> Iterator[None]:
    """Ignore the compiler's warnings: they were shown when the program was compiled.

    `catch_warnings` would also make Python forget which warnings it has shown already.
    """
    filters, ignore = warnings.filters, ("ignore", None, Warning, None, 0)
    filters.insert(0, ignore)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        filters.remove(ignore)  # type: ignore[attr-defined]


def parse(text: str) -> ast.Module | None:
    """Return the syntax tree of a source text, without warnings; None: it has errors."""
    try:
        with _silence():
            return ast.parse(text)
    except UNREADABLE:
        return None


def _lambdas(tree: ast.AST) -> list[ast.Lambda]:
    """Return the lambdas, inner ones first."""
    return [one for one in ast.walk(tree) if isinstance(one, ast.Lambda)][::-1]


def _lines(code: CodeType) -> Iterator[int]:
    """Return the lines of a code object and of those in it."""
    for _, line, _, _ in code.co_positions():
        if line is not None:
            yield line
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _lines(const)


def _class_of(qualname: str) -> str:
    """Return the name of the class that a function is defined in, perhaps inside of others."""
    names = qualname.split(".")[:-1]
    while names and names[-1] == "<locals>":
        names = names[:-2]
    return names[-1] if names else ""


def _last(statement: ast.stmt) -> int:
    """Return the last line on which a statement may have instructions of the module's own."""
    body = getattr(statement, "body", None)
    if isinstance(statement, DEFINITIONS) and body:
        return statement.lineno
    return statement.end_lineno or statement.lineno


def _holds(node: ast.Lambda, places: Sequence[tuple[int | None, ...]]) -> bool:
    """Return whether a lambda's body is around all of its code."""
    first, last = span(node.body)
    return all(first <= (a, c) and (b, d) <= last for a, b, c, d in places)


def _are_same(a: CodeType, b: CodeType) -> bool:
    """Compare two code objects, with their lambdas and comprehensions, but not their names."""
    return (
        a.co_code == b.co_code
        and a.co_linetable == b.co_linetable
        and a.co_exceptiontable == b.co_exceptiontable
        and a.co_names == b.co_names
        and a.co_varnames == b.co_varnames
        and a.co_cellvars == b.co_cellvars
        and a.co_freevars == b.co_freevars
        and len(a.co_consts) == len(b.co_consts)
        and all(map(_are_same_consts, a.co_consts, b.co_consts))
    )


def _are_same_consts(a: object, b: object) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return a.co_name == b.co_name and (not a.co_name.startswith("<") or _are_same(a, b))
    return type(a) is type(b) and (a == b or a != a)


def _differ_in_asserts(code: CodeType, twins: list[CodeType], node: ast.AST) -> bool:
    """Compare all but the asserts, which pytest rewrites in the tests that it runs."""
    if not any(name.startswith("@py_") for name in code.co_varnames):
        return False
    asserts = [span(one) for one in ast.walk(node) if isinstance(one, ast.Assert)]
    outline = _outline(code, asserts)
    return any(outline == _outline(twin, asserts) for twin in twins)


def _outline(code: CodeType, without: list[Span]) -> list[tuple[object, ...]]:
    made: list[tuple[object, ...]] = []
    for i in dis.get_instructions(code):
        a, b, c, d = i.positions if i.positions is not None else (None,) * 4
        if a is None or b is None or c is None or d is None:
            continue
        if any(first <= (a, c) and (b, d) <= last for first, last in without):
            continue
        is_jump = i.opcode in dis.hasjrel or i.opcode in dis.hasjabs
        value = None if is_jump or isinstance(i.argval, CodeType) else i.argval
        made.append((i.opname.removesuffix("_CHECK"), value, a, b, c, d))
    return made
