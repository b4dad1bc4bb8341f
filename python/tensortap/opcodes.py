"""Say what the instructions of Python 3.10 to 3.14 do to the imagined stack.

Only those that load, store, move, call, build or loop are here; of all others
the change of the stack's height is enough, and `dis` knows that.
SPDX-License-Identifier: Apache-2.0
"""

# ruff: noqa: D102 -- do_X does what instruction X does

from __future__ import annotations

from dataclasses import replace
from dis import Instruction
from types import CodeType

from tensortap.key_formula import formula
from tensortap.match_opcodes import MatchOpcodes
from tensortap.name_opcodes import VERSION
from tensortap.paths import ATTRIBUTE, GLOBAL, ITEM_BY, LOCAL, NAME, NO_PATH
from tensortap.stack_item import BLOCK, NOTHING, Item, Taint, direct, union
from tensortap.stack_machine import (
    AUGMENTS,
    CALLS,
    COMPREHENSIONS,
    DIGESTS,
    DOUBTFUL,
    FROM_ALL,
    HARMLESS,
    IN_PLACE,
    LOOPS,
    RETURNS,
    Statement,
    site_number,
)


class Opcodes(MatchOpcodes):
    """A stack machine that knows all instructions."""

    # ---- the stack itself -------------------------------------------------

    def do_LOAD_CONST(self, i: Instruction) -> None:
        value = i.argval
        parts = None
        if isinstance(value, tuple):
            parts = tuple(Item(const=(part,)) for part in value)
        self.push(const=(value,), parts=parts)

    do_LOAD_SMALL_INT = do_LOAD_CONST

    def do_PUSH_NULL(self, i: Instruction) -> None:
        self.push()

    def do_POP_TOP(self, i: Instruction) -> None:
        self.pop()

    def do_END_FOR(self, i: Instruction) -> None:
        self.pops(1 if VERSION >= (3, 13) else 2)

    do_POP_ITER = do_POP_TOP

    def do_PRINT_EXPR(self, i: Instruction) -> None:
        self.pop()
        self.now.flags |= CALLS

    def do_COPY(self, i: Instruction) -> None:
        if len(self.stack) >= (i.arg or 1):
            self.stack.append(replace(self.stack[-(i.arg or 1)], is_block=False))
        else:
            self.push()

    def do_SWAP(self, i: Instruction) -> None:
        n = i.arg or 1
        if len(self.stack) >= n:
            self.stack[-1], self.stack[-n] = self.stack[-n], self.stack[-1]

    def do_DUP_TOP(self, i: Instruction) -> None:
        self.stack.append(replace(self.stack[-1], is_block=False))

    def do_DUP_TOP_TWO(self, i: Instruction) -> None:
        self.stack += [replace(item, is_block=False) for item in self.stack[-2:]]

    def _rotate(self, count: int) -> None:
        top = self.pop()
        self.stack.insert(len(self.stack) - count + 1, top)

    def do_ROT_TWO(self, i: Instruction) -> None:
        self._rotate(2)

    def do_ROT_THREE(self, i: Instruction) -> None:
        self._rotate(3)

    def do_ROT_FOUR(self, i: Instruction) -> None:
        self._rotate(4)

    def do_ROT_N(self, i: Instruction) -> None:
        self._rotate(i.arg or 1)

    # ---- tuples and containers --------------------------------------------

    def do_BUILD_TUPLE(self, i: Instruction) -> None:
        items = self.pops(i.arg or 0)
        self.push(union(items), parts=tuple(items), direct=direct(items))

    def do_BUILD_LIST(self, i: Instruction) -> None:
        items = self.pops(i.arg or 0)
        entries = tuple(enumerate(items))
        self.push(union(items), parts=tuple(items), direct=direct(items), entries=entries)

    def do_BUILD_STRING(self, i: Instruction) -> None:
        items = self.pops(i.arg or 0)
        self.push(union(items), formula=formula(items, *["+"] * (len(items) - 1)))

    def do_BUILD_MAP(self, i: Instruction) -> None:
        items = self.pops(2 * (i.arg or 0))
        pairs = [*zip(items[::2], items[1::2], strict=True)]
        entries = tuple((key.const[0], value) for key, value in pairs if key.const)
        self.push(union(items), direct=direct(items), entries=entries)

    def do_BUILD_CONST_KEY_MAP(self, i: Instruction) -> None:
        *items, keys = self.pops(1 + (i.arg or 0))
        entries = tuple(zip(keys.const[0], items, strict=True)) if keys.const else None
        self.push(union(items), direct=direct(items), entries=entries)

    def do_UNPACK_SEQUENCE(self, i: Instruction) -> None:
        count, item = i.arg or 0, self.pop()
        self.now.flags |= CALLS if item.parts is None else 0
        if item.parts is not None and len(item.parts) == count:
            self.stack += reversed(item.parts)
        else:
            self.stack += [self._part(item)] * count

    def _part(self, item: Item) -> Item:
        return Item(item.reads | self.site, direct=item.direct | self.site, is_part=True)

    def do_UNPACK_EX(self, i: Instruction) -> None:
        before, after = (i.arg or 0) & 255, (i.arg or 0) >> 8
        item, count = self.pop(), before + 1 + after
        self.now.flags |= CALLS
        parts = item.parts
        if parts is None or len(parts) < before + after:
            self.stack += [self._part(item)] * count
            return
        middle = parts[before : len(parts) - after]
        split = [
            *parts[:before],
            Item(union([*middle]), parts=middle, direct=direct([*middle])),
            *parts[len(parts) - after :],
        ]
        self.stack += reversed(split)

    def _add_to(self, count: int, depth: int) -> None:
        items = self.pops(count)
        taint = union(items) | self.site
        self.adds_results = self.adds_results and all(item.direct for item in items[-1:])
        if 0 < depth <= len(self.stack):
            into = self.stack[-depth]
            self.stack[-depth] = Item(
                into.reads | taint, is_block=into.is_block, direct=into.direct | direct(items)
            )
            # What the loop adds later is already known to whoever jumps out of it.
            for state in self._states.values():
                if len(state) >= len(self.stack) - depth + 1 and not self._is_clear():
                    at = len(self.stack) - depth
                    if state[at].reads < self.stack[-depth].reads and not state[at].is_block:
                        state[at] = self.stack[-depth]

    def do_LIST_APPEND(self, i: Instruction) -> None:
        self._add_to(1, i.arg or 1)

    do_SET_ADD = do_LIST_EXTEND = do_SET_UPDATE = do_DICT_UPDATE = do_DICT_MERGE = do_LIST_APPEND

    def do_MAP_ADD(self, i: Instruction) -> None:
        self._add_to(2, i.arg or 1)

    # ---- calls ------------------------------------------------------------

    def do_KW_NAMES(self, i: Instruction) -> None:
        self._keywords = (
            i.argval if isinstance(i.argval, tuple) else self.code.co_consts[i.arg or 0]
        )

    def _call(self, callee: list[Item], items: list[Item]) -> None:
        """Call: what goes in comes out; `out=` and `x.f_()` are written."""
        keywords, self._keywords = self._keywords, ()
        taint = union(callee) | union(items) | self.site
        path = next((item.path for item in callee if item.path != NO_PATH), NO_PATH)
        name = self.paths.rows[path][2] if path != NO_PATH else None
        is_plain = path != NO_PATH and self.paths.rows[path][0] in (GLOBAL, NAME)
        is_range = is_plain and name == "range"
        self.now.flags |= AUGMENTS if is_plain and name in HARMLESS else CALLS
        if is_plain or (path != NO_PATH and self.paths.rows[path][0] == LOCAL):
            taint -= {path}  # what is called is no tensor
            self.now.callees.add(path)
        receiver = next((item.receiver for item in callee if item.receiver), None)
        if path != NO_PATH and self.paths.rows[path][0] == ATTRIBUTE:
            receiver = self.paths.base(path), str(name)
        if receiver and receiver[1].endswith("_") and not receiver[1].endswith("__"):
            self.now.write(receiver[0], IN_PLACE, taint)
        else:
            receiver = None
        for keyword, item in zip(reversed(keywords), reversed(items), strict=False):
            if keyword == "out":
                others = union([*callee, *(one for one in items if one is not item)])
                for part in item.parts or (item,):
                    if part.path != NO_PATH:
                        self.now.write(part.path, IN_PLACE, others & taint)
        for at in self.site:
            self.takes |= {(site_number(at), site_number(k)) for k in direct([*callee, *items])}
        is_computed = any(item.computes for item in callee)
        self.push(
            taint,
            is_range=is_range,
            direct=NOTHING if is_computed else self.site,
            receiver=receiver,
        )

    def do_CALL(self, i: Instruction) -> None:
        items = self.pops(i.arg or 0)
        self._call(self.pops(2), items)

    def do_CALL_KW(self, i: Instruction) -> None:
        names = self.pop()
        self._keywords = names.const[0] if names.const else ()
        self.do_CALL(i)

    def do_CALL_METHOD(self, i: Instruction) -> None:
        self.do_CALL(i)

    def do_CALL_FUNCTION(self, i: Instruction) -> None:
        items = self.pops(i.arg or 0)
        self._call(self.pops(1), items)

    def do_CALL_FUNCTION_KW(self, i: Instruction) -> None:
        names = self.pop()
        self._keywords = names.const[0] if names.const else ()
        self.do_CALL_FUNCTION(i)

    def do_CALL_FUNCTION_EX(self, i: Instruction) -> None:
        has_null = VERSION >= (3, 11)
        items = self.pops(2 if (i.arg or 0) & 1 or VERSION >= (3, 14) else 1)
        self._call(self.pops(2 if has_null else 1), items)

    def do_MAKE_FUNCTION(self, i: Instruction) -> None:
        items = self.pops(1 if VERSION >= (3, 11) else 2)
        code = next(
            (x.const[0] for x in items if x.const and isinstance(x.const[0], CodeType)), None
        )
        if VERSION < (3, 13):
            more = self.pops(bin((i.arg or 0) & 15).count("1"))
            items += (
                more[:-1] if (i.arg or 0) & 8 else more
            )  # what it reads of a closure is in _inside
        self.push(union(items) | self._inside(code), computes=self._computes)

    def do_SET_FUNCTION_ATTRIBUTE(self, i: Instruction) -> None:
        more, function = self.pops(2)
        reads = function.reads if (i.arg or 0) & 8 else more.reads | function.reads
        self.push(reads, computes=function.computes)

    def _inside(self, code: CodeType | None) -> Taint:
        """Return what a lambda or comprehension will read; note what it writes out here."""
        self._computes = False
        if code is None or (code.co_name not in COMPREHENSIONS and code.co_name != "<lambda>"):
            return NOTHING
        inner = type(self)(code)
        found: set[int] = set()
        for statement in inner.run():
            self.now.flags |= statement.flags & DIGESTS
            found.update(filter(None, (self._outer(inner, path) for path in statement.reads)))
            if code.co_name in COMPREHENSIONS - {"<genexpr>"}:
                for path in statement.writes:
                    here = self._outer(inner, path)
                    if here is not None:
                        self.now.write(here - 1, FROM_ALL, NOTHING)
        self._computes = code.co_name in COMPREHENSIONS and not inner.adds_results
        for number in found:
            self.now.reads.setdefault(number - 1)
        return frozenset(number - 1 for number in found)

    def _outer(self, inner: Opcodes, path: int) -> int | None:
        """Return 1 + the number here of a path of a nested code object; None: it is its own."""
        kind, base, detail, _ = inner.paths.rows[path]
        if kind == LOCAL:
            if detail in inner.code.co_freevars and self.paths.has_cell(detail):
                return 1 + self.paths.cell(detail)
            return None
        if kind in (GLOBAL, NAME):
            is_module = self.code.co_name == "<module>"
            return 1 + (self.paths.name(detail) if is_module else self.paths.global_(detail))
        below = self._outer(inner, base)
        if below is None:
            return None
        if kind == ATTRIBUTE:
            return 1 + self.paths.attribute(below - 1, detail)
        return 1 + (
            self.paths.opaque(below - 1)
            if kind == ITEM_BY or detail is None
            else self.paths.item(below - 1, detail)
        )

    # ---- blocks -----------------------------------------------------------

    def do_GET_ITER(self, i: Instruction) -> None:
        item = self.pop()
        self.now.flags |= 0 if item.is_range else CALLS
        self.push(item.reads, is_range=item.is_range, direct=item.direct)

    def do_FOR_ITER(self, i: Instruction) -> None:
        at, below = i.offset // 2, self.stack[:-1]
        iterator = self.stack[-1] if self.stack else BLOCK
        if all(item.is_block for item in below):  # a statement's loop, not a comprehension's
            if self.now.end and not iterator.is_block:
                self._close()
                self.now = Statement(at, line=self.lines[at])
            iterator = self.stack[-1] = replace(iterator, is_block=True)
            self.now.flags |= LOOPS
            self.now.exit = int(i.argval) // 2
        for path in iterator.reads:
            if path > NO_PATH:
                self.now.reads.setdefault(path)
        self.now.flags |= 0 if iterator.is_range else CALLS
        left = list(self.stack) if VERSION >= (3, 12) else below
        if VERSION >= (3, 12):
            left = [*left, Item(is_block=True)]
        self._jump(at, int(i.argval) // 2, left)
        self.push(iterator.reads, direct=iterator.direct | self.site, is_part=True)

    def _enter_with(self) -> None:
        context = self.pop()
        self.now.flags |= CALLS
        self.stack.append(BLOCK)
        self.push(context.reads, direct=self.site)

    def do_BEFORE_WITH(self, i: Instruction) -> None:
        self._enter_with()

    do_BEFORE_ASYNC_WITH = do_BEFORE_WITH

    def do_SETUP_WITH(self, i: Instruction) -> None:
        self._enter_with()
        target = int(i.argval) // 2
        self.handlers.add(target)
        self._jump(i.offset // 2, target, [*self.stack[:-1], *[BLOCK] * 6])

    def do_SETUP_ASYNC_WITH(self, i: Instruction) -> None:
        result = self.pop()
        target = int(i.argval) // 2
        self.handlers.add(target)
        self._jump(i.offset // 2, target, [*self.stack, *[BLOCK] * 6])
        self.stack.append(result)

    def do_SETUP_FINALLY(self, i: Instruction) -> None:
        target = int(i.argval) // 2
        self.handlers.add(target)
        self._jump(i.offset // 2, target, [*self.stack, *[BLOCK] * 6])

    def do_PUSH_EXC_INFO(self, i: Instruction) -> None:
        self.stack.insert(len(self.stack) - 1, BLOCK)

    def do_GET_ANEXT(self, i: Instruction) -> None:
        self.now.flags |= CALLS | DOUBTFUL
        if self.stack:
            self.stack[-1] = replace(self.stack[-1], is_block=True)
        self.push(self.stack[-1].reads if self.stack else NOTHING)

    def do_END_ASYNC_FOR(self, i: Instruction) -> None:
        self.pops(2 if VERSION >= (3, 11) else 7)

    def do_RETURN_VALUE(self, i: Instruction) -> None:
        self.pop()
        self.now.flags |= RETURNS

    def do_RETURN_CONST(self, i: Instruction) -> None:
        self.now.flags |= RETURNS

    def do_YIELD_VALUE(self, i: Instruction) -> None:
        self.pop()
        self.now.flags |= RETURNS | CALLS
        self.push(direct=self.site)

    def do_RAISE_VARARGS(self, i: Instruction) -> None:
        self.pops(i.arg or 0)

    def do_RERAISE(self, i: Instruction) -> None:
        self.now.writes.clear()
        self._is_cleanup = False
