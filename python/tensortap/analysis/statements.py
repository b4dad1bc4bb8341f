"""Find out what each form of statement does.

SPDX-License-Identifier: Apache-2.0
"""

# ruff: noqa: D102 -- do_X does what statement X does

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace

from tensortap.analysis.expressions import Expressions
from tensortap.analysis.paths import NO_PATH
from tensortap.analysis.statement import NOTHING, Does, Reads, Statement, Value, Writes, site_number

#: What has instructions of its own: a statement without its body, an except clause, a case.
Head = ast.stmt | ast.ExceptHandler | ast.match_case | ast.Lambda
For = ast.For | ast.AsyncFor
With = ast.With | ast.AsyncWith


class Statements(Expressions):
    """Follows the statements of one code object."""

    def follow(self, node: Head, units: Iterable[int]) -> Statement:
        """Return what a statement does; *units* are its instructions."""
        self.now = Statement()
        if isinstance(node, (ast.With, ast.AsyncWith)):
            self._enter(node, frozenset(map(site_number, units)))
        else:
            do: Callable[[ast.AST], None] = getattr(self, "do_" + type(node).__name__, self._visit)
            do(node)
        return self.now

    def _visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)

    def follow_next(self, node: For, units: Iterable[int]) -> Statement:
        """Return what a loop does to take its next item."""
        self.now = Statement()
        value = self.value(node.iter)
        sites = frozenset(map(site_number, units))
        self.now = Statement(Does.LOOPS if isinstance(node, ast.For) else Does.DOUBTFUL)
        self.now.flags |= 0 if value.is_range else Does.CALLS
        self._read(value.reads)
        item = Value(value.reads | sites, direct=value.direct | sites, is_part=True)
        self.assign(node.target, item)
        return self.now

    def _read(self, reads: Reads) -> None:
        self.now.reads.update(dict.fromkeys(path for path in sorted(reads) if path > NO_PATH))

    # ---- simple statements --------------------------------------------------

    def do_Lambda(self, node: ast.Lambda) -> None:
        self.value(node.body)
        self.now.flags |= Does.RETURNS

    def do_Return(self, node: ast.Return) -> None:
        self._visit(node)
        self.now.flags |= Does.RETURNS

    def do_Raise(self, node: ast.Raise) -> None:
        self._visit(node)
        self.now.raises = True

    def do_Assert(self, node: ast.Assert) -> None:
        self.test(node.test)
        if node.msg is not None:
            self.value(node.msg)

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value))
        else:
            self.now.flags |= Does.CALLS

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        old, value = self.value(node.target), self.value(node.value)
        self.now.flags |= Does.AUGMENTS | Does.OPERATES
        reads = old.reads | value.reads
        if old.path != NO_PATH:
            self.now.write(old.path, Writes.IN_PLACE | Writes.MAYBE, reads)
        self.assign(node.target, Value(reads | self.instructions.sites(node)))

    def do_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.now.write(self.variable(target.id), 0, NOTHING)
            else:
                self.now.flags |= Does.CALLS
                self._visit(target)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.now.flags |= Does.CALLS
        for alias in node.names:
            if alias.name != "*":
                name = alias.asname or alias.name.partition(".")[0]
                self.now.store(self.variable(name), Value(self.instructions.sites(node)))

    do_Import = do_ImportFrom = _import

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        parts: list[ast.expr | None] = [*node.decorator_list]
        if isinstance(node, ast.ClassDef):
            parts += [*node.bases, *(keyword.value for keyword in node.keywords)]
        else:
            parts += [*node.args.defaults, *node.args.kw_defaults]
        reads = self.instructions.sites(node)
        for one in parts:
            reads |= self.value(one).reads if one is not None else NOTHING
        if node.decorator_list or isinstance(node, ast.ClassDef):
            self.now.flags |= Does.CALLS
        self.now.store(self.variable(node.name), Value(reads))

    do_FunctionDef = do_AsyncFunctionDef = do_ClassDef = _define

    # ---- heads of compound statements ---------------------------------------

    def _test(self, node: ast.If | ast.While) -> None:
        self.test(node.test)
        self.now.is_test = True

    do_If = do_While = _test

    def _for(self, node: For) -> None:
        value = self.value(node.iter)
        self.now.flags |= 0 if value.is_range else Does.CALLS

    do_For = do_AsyncFor = _for

    def _enter(self, node: With, own: Reads) -> None:
        for item in node.items:
            context = self.value(item.context_expr)
            self.now.flags |= Does.CALLS
            # From 3.13 on, what enters and exits has the place of the expression.
            sites = self.instructions.sites(item.context_expr)
            sites |= self.instructions.sites_at(item.context_expr) | self.instructions.sites_at(
                node
            )
            sites &= own
            if item.optional_vars is not None:
                self.assign(item.optional_vars, Value(context.reads | sites, direct=sites))

    def do_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.value(node.type)
        self.now.flags |= Does.CALLS | Does.BRANCHES
        if node.name:
            self.now.store(self.variable(node.name), Value())

    # ---- match --------------------------------------------------------------

    def follow_case(self, node: ast.match_case, match: ast.Match) -> Statement:
        """Return what a case does to find out whether it matches."""
        self.now = Statement()
        subject = self.value(match.subject)
        self.now = Statement(Does.BRANCHES | Does.OPERATES)
        self._read(subject.reads)
        self._match(node.pattern, subject)
        if node.guard is not None:
            self.test(node.guard)
        return self.now

    def _match(self, pattern: ast.pattern, value: Value) -> None:
        part = replace(value, path=NO_PATH, is_part=True)
        match pattern:
            case ast.MatchValue():
                self.now.control |= value.reads | self.value(pattern.value).reads
            case ast.MatchSingleton():
                self.now.control |= value.reads
            case ast.MatchSequence(patterns):
                self.now.flags |= Does.CALLS
                parts = value.parts
                if parts is None or len(parts) != len(patterns):
                    parts = [part] * len(patterns)
                for inner, item in zip(patterns, parts, strict=True):
                    self._match(inner, item)
            case ast.MatchMapping(keys, patterns, rest):
                self.now.flags |= Does.CALLS
                for key, inner in zip(keys, patterns, strict=True):
                    const = self.value(key).const
                    is_known = value.path != NO_PATH
                    path = self.paths.item(value.path, const[0]) if const and is_known else NO_PATH
                    self._match(inner, self._found(path, part))
                if rest:
                    self.now.store(self.variable(rest), part)
            case ast.MatchClass(cls, patterns, names, named):
                self.now.flags |= Does.CALLS
                self.value(cls)
                for inner in patterns:
                    self._match(inner, part)
                for name, inner in zip(names, named, strict=True):
                    is_known = value.path != NO_PATH
                    path = self.paths.attribute(value.path, name) if is_known else NO_PATH
                    self._match(inner, self._found(path, part))
            case ast.MatchStar(str(name)):
                self.now.store(self.variable(name), part)
            case ast.MatchAs():
                if pattern.pattern is not None:
                    self._match(pattern.pattern, value)
                if pattern.name is not None:
                    self.now.store(self.variable(pattern.name), value)
            case ast.MatchOr(patterns):
                for inner in patterns:
                    self._match(inner, value)

    def _found(self, path: int, part: Value) -> Value:
        """Return what a pattern takes out of its subject."""
        if path == NO_PATH:
            return part
        self.now.reads.setdefault(path)
        return Value(frozenset((path,)), path, is_part=True)
