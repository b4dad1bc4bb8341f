"""Say what the instructions that load and store names do to the imagined stack.

SPDX-License-Identifier: Apache-2.0
"""

# ruff: noqa: D102 -- do_X does what instruction X does

from __future__ import annotations

import sys
from dataclasses import replace
from dis import Instruction

from tensortap.paths import NO_PATH
from tensortap.stack_item import NOTHING, Item, Taint, union
from tensortap.stack_machine import CALLS, DIGESTS, OPERATES, UNCOUNTED, StackMachine, Statement

VERSION = sys.version_info[:2]


class NameOpcodes(StackMachine):
    """A stack machine that knows names, attributes and items."""

    # ---- names ------------------------------------------------------------

    def load_fast(self, name: str) -> None:
        """Load a local; a comprehension's own variable is what it iterates over."""
        if name in self._comprehended:
            self.push(self._comprehended[name].reads)
        elif name in self.paths._fast:
            self.load(self.paths.fast(name))
        else:
            self.load(self.paths.cell(name))

    def store_fast(self, name: str) -> None:
        """Store a local."""
        item = self.pop()
        if item.saved == name:
            self._comprehended.pop(name, None)
        elif name in self._comprehended:
            self._comprehended[name] = Item(item.reads)
        else:
            self.store(self.paths.fast(name), item)

    def do_LOAD_FAST(self, i: Instruction) -> None:
        self.load_fast(i.argval)

    do_LOAD_FAST_CHECK = do_LOAD_FAST_BORROW = do_LOAD_FAST

    def do_LOAD_FAST_LOAD_FAST(self, i: Instruction) -> None:
        for name in i.argval:
            self.load_fast(name)

    do_LOAD_FAST_BORROW_LOAD_FAST_BORROW = do_LOAD_FAST_LOAD_FAST

    def do_LOAD_FAST_AND_CLEAR(self, i: Instruction) -> None:
        self._comprehended[i.argval] = Item()
        self.push(saved=i.argval)

    def do_STORE_FAST(self, i: Instruction) -> None:
        self.store_fast(i.argval)

    do_STORE_FAST_MAYBE_NULL = do_STORE_FAST

    def _between(self, i: Instruction) -> None:
        """End the statement in the middle of a double instruction, if it ends there."""
        if self._is_clear():
            self.now.end = i.offset // 2 + 1
            self._close()
            line = self.now.line
            self.now = Statement(i.offset // 2 + 1, line=line)

    def do_STORE_FAST_LOAD_FAST(self, i: Instruction) -> None:
        self.store_fast(i.argval[0])
        self._between(i)
        self.load_fast(i.argval[1])

    def do_STORE_FAST_STORE_FAST(self, i: Instruction) -> None:
        for name in i.argval:
            self.store_fast(name)

    def do_LOAD_DEREF(self, i: Instruction) -> None:
        self.load(self.paths.cell(i.argval))

    def do_LOAD_CLASSDEREF(self, i: Instruction) -> None:
        self.load(self.paths.cell(i.argval))

    def do_LOAD_FROM_DICT_OR_DEREF(self, i: Instruction) -> None:
        self.pop()
        self.load(self.paths.cell(i.argval))

    def do_LOAD_FROM_DICT_OR_GLOBALS(self, i: Instruction) -> None:
        self.pop()
        self.load(self.paths.global_(i.argval))

    def do_LOAD_CLOSURE(self, i: Instruction) -> None:
        self.push()

    def do_STORE_DEREF(self, i: Instruction) -> None:
        self.store(self.paths.cell(i.argval), self.pop())

    def do_LOAD_GLOBAL(self, i: Instruction) -> None:
        if VERSION >= (3, 11) and (i.arg or 0) & 1 and VERSION < (3, 13):
            self.push()
        self.load(self.paths.global_(i.argval))
        if VERSION >= (3, 13) and (i.arg or 0) & 1:
            self.push()

    def do_STORE_GLOBAL(self, i: Instruction) -> None:
        self.store(self.paths.global_(i.argval), self.pop())

    def do_LOAD_NAME(self, i: Instruction) -> None:
        self.load(self.paths.name(i.argval))

    def do_STORE_NAME(self, i: Instruction) -> None:
        self.store(self.paths.name(i.argval), self.pop())

    def do_DELETE_FAST(self, i: Instruction) -> None:
        self.now.write(self.paths.fast(i.argval), 0, NOTHING)

    def do_DELETE_NAME(self, i: Instruction) -> None:
        self.now.write(self.paths.name(i.argval), 0, NOTHING)

    # ---- attributes and items --------------------------------------------

    def _attribute(self, name: str) -> None:
        base = self.pop()
        self.now.flags |= OPERATES
        if name in UNCOUNTED:
            self.now.flags |= DIGESTS | CALLS
        if base.path == NO_PATH:
            receiver = (base.receiver[0], name) if base.receiver else None
            self.push(base.reads, receiver=receiver)
        else:
            self._refine(base, self.paths.attribute(base.path, name))

    def do_LOAD_ATTR(self, i: Instruction) -> None:
        self._attribute(i.argval)
        if VERSION >= (3, 12) and (i.arg or 0) & 1:
            self.push()

    def do_LOAD_METHOD(self, i: Instruction) -> None:
        self._attribute(i.argval)
        self.push()

    def do_LOAD_SUPER_ATTR(self, i: Instruction) -> None:
        self.pops(3)
        self.push()
        if (i.arg or 0) & 1:
            self.push()

    def do_STORE_ATTR(self, i: Instruction) -> None:
        value, base = self.pops(2)
        self.now.flags |= CALLS | (DIGESTS if i.argval in UNCOUNTED else 0)
        if base.path != NO_PATH:
            path = self.paths.attribute(base.path, i.argval)
            self.store(path, replace(value, reads=value.reads | {base.path}))

    def do_STORE_SUBSCR(self, i: Instruction) -> None:
        value, base, key = self.pops(3)
        self.now.flags |= CALLS
        path = self._item_path(base, key)
        if path != NO_PATH:
            self.store(path, replace(value, reads=value.reads | key.reads | {base.path}))

    def do_STORE_SLICE(self, i: Instruction) -> None:
        value, base, start, stop = self.pops(4)
        self.now.flags |= CALLS
        if base.path != NO_PATH:
            path = self.paths.opaque(base.path)
            self.store(path, Item(union([value, start, stop]) | {base.path}))

    def do_BINARY_SLICE(self, i: Instruction) -> None:
        base, start, stop = self.pops(3)
        self.now.flags |= OPERATES
        self._refine_or_push(base, start.reads | stop.reads)

    def _refine_or_push(self, base: Item, more: Taint) -> None:
        if base.path == NO_PATH:
            self.push(base.reads | more)
        else:
            self._refine(base, self.paths.opaque(base.path), more)

    def do_DELETE_SUBSCR(self, i: Instruction) -> None:
        self.pops(2)
        self.now.flags |= CALLS

    def do_DELETE_ATTR(self, i: Instruction) -> None:
        self.pop()
        self.now.flags |= CALLS
