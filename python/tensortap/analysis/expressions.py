"""Follow the data through the expressions of a code object.

Each value knows which paths and which calls it was computed from. A store then has exactly
the reads that flow into it.
SPDX-License-Identifier: Apache-2.0
"""

# ruff: noqa: D102 -- value_X returns the value of node X

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from tensortap.analysis.instructions import Instructions
from tensortap.analysis.paths import ABOUT, ATTRIBUTE, GLOBAL, LOCAL, NAME, NO_PATH, Paths
from tensortap.analysis.statement import (
    NOTHING,
    Does,
    Entries,
    Reads,
    Statement,
    Value,
    Writes,
    formula,
    join,
    site_number,
    union,
)

#: What hides a change from torch's version counter.
UNCOUNTED = {
    *("data", "numpy", "set_", "step", "from_numpy", "untyped_storage", "storage"),
    "share_memory_",
}
#: Builtins that change nothing when all they get is plain (if the name is theirs).
HARMLESS = {
    *("abs", "bool", "divmod", "float", "id", "int", "isinstance", "len"),
    *("max", "min", "ord", "range", "round", "str"),
}
#: These ask what kind of thing they are given; what they return is not computed from it.
ASKING = {"callable", "hasattr", "id", "isinstance", "len", "type"}
#: Operators that a key may be computed with.
SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}


def _is_place(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript) and not _is_place(node.slice):
        return False
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return _is_place(node.value)
    return isinstance(node, (ast.Name, ast.Constant))


Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Expressions:
    """Evaluates the expressions of one code object, and notes what they do in `now`."""

    def __init__(self, instructions: Instructions, paths: Paths, class_name: str) -> None:
        """Start with no statement."""
        self.instructions = instructions
        self.paths = paths
        self.now = Statement()
        self._class_name = class_name.lstrip("_")
        self._scopes: list[dict[str, Value]] = []  # variables of comprehensions and lambdas

    def value(self, node: ast.expr) -> Value:
        """Return where the value of an expression comes from."""
        made: Value = getattr(self, "value_" + type(node).__name__, self._other)(node)
        if isinstance(node, (ast.Name, ast.Constant)):
            return made
        sites = self.instructions.sites(node)
        return made if sites <= made.reads else replace(made, reads=made.reads | sites)

    def _other(self, node: ast.expr) -> Value:
        values = [
            self.value(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)
        ]
        self.now.flags |= Does.OPERATES
        return Value(union(values))

    # ---- names, attributes and items ----------------------------------------

    def _mangled(self, name: str) -> str:
        is_private = name.startswith("__") and not name.endswith("__")
        return f"_{self._class_name}{name}" if is_private and self._class_name else name

    def variable(self, name: str) -> int:
        """Return the path of a variable."""
        return self.paths.variable(self._mangled(name))

    def value_Constant(self, node: ast.Constant) -> Value:
        return Value(const=(node.value,))

    def value_Name(self, node: ast.Name) -> Value:
        for scope in reversed(self._scopes):
            if node.id in scope:
                return Value(scope[node.id].reads)
        path = self.variable(node.id)
        self.now.reads.setdefault(path)
        return Value(frozenset((path,)), path)

    def value_Attribute(self, node: ast.Attribute) -> Value:
        base, name = self.value(node.value), self._mangled(node.attr)
        self.now.flags |= Does.OPERATES
        if name in UNCOUNTED:
            self.now.flags |= Does.DIGESTS | Does.CALLS
        if base.path == NO_PATH:
            receiver = (base.receiver[0], name) if base.receiver else None
            return Value(NOTHING if name in ABOUT else base.reads, receiver=receiver)
        return self._refine(base, self.paths.attribute(base.path, name), node)

    def value_Subscript(self, node: ast.Subscript) -> Value:
        base, key = self.value(node.value), self.value(node.slice)
        self.now.flags |= Does.OPERATES
        path = self._item_path(base, key)
        if path != NO_PATH:
            return self._refine(base, path, node, key.reads)
        sites = self.instructions.sites(node)
        return Value(base.reads | key.reads | sites, direct=base.direct | sites)

    def _item_path(self, base: Value, key: Value) -> int:
        if base.path == NO_PATH:
            return NO_PATH
        if key.const is not None:
            return self.paths.item(base.path, key.const[0])
        if key.path != NO_PATH and self.paths.rows[key.path][0] <= NAME:
            return self.paths.item_by(base.path, key.path)
        computed = formula([key])
        if computed is None:
            return self.paths.opaque(base.path)
        return self.paths.item_of(base.path, computed)

    def _refine(self, base: Value, path: int, node: ast.expr, more: Reads = NOTHING) -> Value:
        """Read a part of what was read: the part takes the place of the whole."""
        self.now.reads.setdefault(path)
        sites = self.instructions.sites(node)
        reads = (base.reads - {base.path}) | {path} | more | sites
        return Value(reads, path, direct=base.direct | sites)

    # ---- stores -------------------------------------------------------------

    def assign(self, target: ast.expr, value: Value) -> None:
        """Store a value under a target."""
        if isinstance(target, ast.Name):
            for scope in reversed(self._scopes):
                if target.id in scope:
                    scope[target.id] = Value(value.reads)
                    return
            self.now.store(self.variable(target.id), value)
        elif isinstance(target, ast.Attribute):
            base, name = self.value(target.value), self._mangled(target.attr)
            self.now.flags |= Does.CALLS | (Does.DIGESTS if name in UNCOUNTED else 0)
            if base.path != NO_PATH:
                path = self.paths.attribute(base.path, name)
                self.now.store(path, replace(value, reads=value.reads | {base.path}))
        elif isinstance(target, ast.Subscript):
            base, key = self.value(target.value), self.value(target.slice)
            self.now.flags |= Does.CALLS
            path = self._item_path(base, key)
            if path != NO_PATH:
                reads = value.reads | key.reads | {base.path}
                self.now.store(path, replace(value, reads=reads))
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = self._unpack(target, value)
            for one, part in zip(target.elts, parts, strict=True):
                self.assign(one, part)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> Sequence[Value]:
        parts, count = value.parts, len(target.elts)
        star = next((k for k, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
        if parts is not None and star is None and len(parts) == count:
            return parts
        self.now.flags |= Does.CALLS
        if parts is not None and star is not None and len(parts) >= count - 1:
            after = len(parts) - (count - star - 1)
            middle = parts[star:after]
            rest = replace(join(middle), parts=middle)
            return [*parts[:star], rest, *parts[after:]]
        sites = self.instructions.sites(target)
        part = Value(value.reads | sites, direct=value.direct | sites, is_part=True)
        return [part] * count

    # ---- operators ----------------------------------------------------------

    def value_BinOp(self, node: ast.BinOp) -> Value:
        self.now.flags |= Does.OPERATES
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):  # a + b + c and so on, without recursion
            chain.append(chain[-1].left)
        made = self.value(chain[-1].left)
        for one in reversed(chain):
            values = [made, self.value(one.right)]
            reads = union(values) | self.instructions.sites(one)
            sign = SIGNS.get(type(one.op))
            made = Value(reads, formula=formula(values, sign) if sign else None)
        return made

    def value_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        self.now.flags |= Does.OPERATES
        if not isinstance(node.op, ast.USub):
            return Value(value.reads)
        if value.const and type(value.const[0]) in (int, float):
            return Value(const=(-value.const[0],))
        rest = formula([value], "-")
        return Value(value.reads, formula=rest and ((0,), *rest))

    def value_Compare(self, node: ast.Compare) -> Value:
        values = [self.value(node.left), *map(self.value, node.comparators)]
        if not all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            self.now.flags |= Does.OPERATES
        return Value(union(values))

    def value_BoolOp(self, node: ast.BoolOp) -> Value:
        *first, last = node.values
        return join([*map(self.test, first), self.value(last)])

    def value_IfExp(self, node: ast.IfExp) -> Value:
        self.test(node.test)
        return join([self.value(node.body), self.value(node.orelse)])

    def test(self, node: ast.expr) -> Value:
        """Evaluate a condition."""
        value = self.value(node)
        if not value.is_part:
            self.now.control |= value.reads
        self.now.flags |= Does.BRANCHES
        return value

    def value_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        scopes, self._scopes = self._scopes, []  # it is stored outside of comprehensions
        self.assign(node.target, value)
        self._scopes = scopes
        return value

    # ---- containers and texts -----------------------------------------------

    def _built(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        values = [self.value(one) for one in node.elts]
        made = join(values)
        if isinstance(node, ast.Set) or any(isinstance(one, ast.Starred) for one in node.elts):
            self.now.flags |= Does.CALLS
            return made
        made.parts = values
        if isinstance(node, ast.List):
            made.entries = tuple(enumerate(values))
        elif values and all(one.const for one in values):
            made.const = (tuple(one.const[0] for one in values if one.const),)
        return made

    value_Tuple = value_List = value_Set = _built

    def value_Starred(self, node: ast.Starred) -> Value:
        value = self.value(node.value)
        return Value(value.reads, direct=value.direct)

    def value_Dict(self, node: ast.Dict) -> Value:
        keys = [self.value(key) if key is not None else None for key in node.keys]
        items = [self.value(one) for one in node.values]
        values = [*items, *(key for key in keys if key is not None)]
        made = join(values)
        if None in keys:  # **other
            self.now.flags |= Does.CALLS
            return made
        pairs = zip(keys, items, strict=True)
        made.entries = tuple((key.const[0], one) for key, one in pairs if key and key.const)
        return made

    def value_FormattedValue(self, node: ast.FormattedValue) -> Value:
        value = self.value(node.value)
        self.now.flags |= Does.OPERATES
        is_plain = node.conversion == -1 and node.format_spec is None
        return Value(value.reads, formula=formula([value], "text") if is_plain else None)

    def value_JoinedStr(self, node: ast.JoinedStr) -> Value:
        values = [self.value(one) for one in node.values]
        return Value(union(values), formula=formula(values, *["+"] * (len(values) - 1)))

    # ---- calls --------------------------------------------------------------

    def value_Call(self, node: ast.Call) -> Value:
        """Call: what goes in comes out; `out=` and `x.f_()` are written."""
        callee = self.value(node.func)
        path = callee.path
        kind, _, name, *_ = self.paths.rows[path] if path != NO_PATH else (None, 0, None)
        is_plain = kind in (GLOBAL, NAME)
        self.now.flags |= Does.AUGMENTS if is_plain and name in HARMLESS else Does.CALLS
        if is_plain or kind == LOCAL:
            self.now.callees.add(path)  # it is no tensor
            callee = Value(callee.reads - {path}, direct=callee.direct)
        sites = self.instructions.sites(node)
        if is_plain and name in ASKING and all(map(_is_place, node.args)):
            return Value(sites, direct=sites)
        given = self._arguments(node)
        values = [callee, *(value for _, value in given)]
        made = replace(join(values), entries=given)
        reads = made.reads | sites
        self._note_call(sites, made)
        receiver = callee.receiver
        if kind == ATTRIBUTE:
            receiver = self.paths.base(path), str(name)
        if receiver and receiver[1].endswith("_") and not receiver[1].endswith("__"):
            self.now.write(receiver[0], Writes.IN_PLACE, reads)
        else:
            receiver = None
        for out in (value for key, value in given if key == "out"):
            others = union([one for one in values if one is not out])
            for part in out.parts or (out,):
                if part.path != NO_PATH:
                    self.now.write(part.path, Writes.IN_PLACE, others)
        is_range = is_plain and name == "range"
        return Value(reads, direct=sites, is_range=is_range, receiver=receiver)

    def _arguments(self, node: ast.Call) -> Entries:
        """Return the arguments by their positions and names; None: `*xs`, and what follows."""
        found: list[tuple[int | str | None, Value]] = []
        is_open = False
        for number, one in enumerate(node.args):
            is_open = is_open or isinstance(one, ast.Starred)
            found.append((None if is_open else number, self.value(one)))
        return (*found, *((one.arg, self.value(one.value)) for one in node.keywords))

    def _note_call(self, sites: Reads, given: Value) -> None:
        for site in sites:
            self.now.calls[site_number(site)] = given

    def value_Lambda(self, node: ast.Lambda) -> Value:
        given = node.args
        defaults = [self.value(one) for one in (*given.defaults, *given.kw_defaults) if one]
        names = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        outer, self.now = self.now, Statement()
        self._scopes.append({one.arg: Value() for one in names if one is not None})
        self.value(node.body)
        self._scopes.pop()
        inner, self.now = self.now, outer
        self.now.flags |= inner.flags & Does.DIGESTS
        self.now.reads.update(inner.reads)
        return Value(union(defaults) | frozenset(inner.reads))

    def _comprehension(self, node: Comprehension) -> Value:
        reads = sites = self.instructions.sites(node)
        scope: dict[str, Value] = {}
        for number, loop in enumerate(node.generators):
            value = self.value(loop.iter)  # the first one is evaluated outside
            if number == 0:
                self._scopes.append(scope)
            names = [one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)]
            scope.update({name: Value() for name in names})
            reads |= value.reads
            self.assign(loop.target, Value(value.reads))
            for one in loop.ifs:
                reads |= self.value(one).reads
        items = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        values = [self.value(one) for one in items]
        self._scopes.pop()
        self.now.flags |= Does.CALLS
        reads |= union(values)
        self._note_call(sites, Value(reads - sites))  # up to 3.11 its calls are made from there
        if isinstance(node, ast.GeneratorExp):
            return Value(reads, direct=sites)
        # Is each item what a call gave?  Up to 3.11 the call is in a frame of its own.
        is_result = values[-1].direct or isinstance(items[-1], (ast.Call, ast.Await))
        return Value(reads, direct=sites | values[-1].direct if is_result else NOTHING)

    value_ListComp = value_SetComp = value_DictComp = value_GeneratorExp = _comprehension

    def value_Yield(self, node: ast.Yield) -> Value:
        if node.value is not None:
            self.value(node.value)
        self.now.flags |= Does.RETURNS | Does.CALLS
        sites = self.instructions.sites(node)
        return Value(sites, direct=sites)

    def _awaited(self, node: ast.Await | ast.YieldFrom) -> Value:
        value, sites = self.value(node.value), self.instructions.sites(node)
        self.now.flags |= Does.RETURNS | Does.CALLS | Does.BRANCHES
        return Value(value.reads | sites, direct=sites)

    value_Await = value_YieldFrom = _awaited
