"""Follow data through the instructions of a code object, without running it.

Each entry of the imagined stack knows which paths its value was computed from.
A store then has exactly the reads that flow into it: `a, b = x + 1, y + 1`
pairs up by itself.  A statement ends where nothing but what belongs to a block
(a loop's iterator, the exit of a `with`) is left on the stack; no source text
and no positions are needed, so this serves all versions of Python alike.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import dis
import sys
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from tensortap.key_formula import formula, result_of
from tensortap.paths import NO_PATH, Paths
from tensortap.stack_item import BLOCK, NOTHING, Entries, Item, Taint, join, union

# Statement flags; line_table.h knows them.
CALLS, OPERATES, DIGESTS, HANDLES, RETURNS, LOOPS, AUGMENTS, BRANCHES = (1 << i for i in range(8))
DOUBTFUL = 1 << 9  # its store may not have run: the end of an `async for`
STEPS = 1 << 13  # starts in the middle of a line, and must be told of by itself
# Flags of a write.
SAME, IN_PLACE, MAYBE, FROM_ALL, PART = (1 << i for i in range(5))

#: What hides a change from torch's version counter.
UNCOUNTED = {
    "data",
    "numpy",
    "set_",
    "step",
    "from_numpy",
    "untyped_storage",
    "storage",
    "share_memory_",
}
#: Builtins that change nothing when all they get is plain (if the name is theirs).
HARMLESS = {
    *("abs", "bool", "divmod", "float", "id", "int", "isinstance", "len"),
    *("max", "min", "ord", "range", "round", "str"),
}
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
NO_FALL = {
    *("JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
    *("JUMP", "JUMP_NO_INTERRUPT", "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS"),
    *("RERAISE", "INTERPRETER_EXIT"),
}
#: These may run a function of the user's, whose result is in what they push.
CALLING = (
    *("CALL", "BINARY_", "INPLACE_", "UNARY_", "COMPARE_", "CONTAINS_", "FORMAT_", "UNPACK_"),
    *("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER", "LIST_EXTEND", "SET_UPDATE", "DICT_", "GET_"),
    *("FOR_ITER", "BEFORE_", "SETUP_", "SEND", "YIELD_", "MATCH_", "LOAD_SPECIAL"),
)
QUIET = {
    *("NOP", "RESUME", "CACHE", "EXTENDED_ARG", "MAKE_CELL", "COPY_FREE_VARS", "GEN_START"),
    *("SETUP_ANNOTATIONS", "RETURN_GENERATOR", "POP_BLOCK", "PRECALL", "NOT_TAKEN"),
}


@dataclass
class Statement:
    """A run of instructions that leaves the stack as it was."""

    start: int
    end: int = 0
    line: int = 0
    flags: int = 0
    exit: int = 0  # of a loop header: where it goes when there is no further item
    reads: dict[int, None] = field(default_factory=dict)
    callees: set[int] = field(default_factory=set)  # read only to be called
    writes: dict[int, tuple[int, Taint]] = field(default_factory=dict)
    direct: dict[int, Taint] = field(default_factory=dict)  # of each write, as in Item
    entries: dict[int, Entries] = field(default_factory=dict)  # the same
    control: Taint = NOTHING  # what decided which way it went
    sites: set[int] = field(default_factory=set)  # instructions that may call something
    last: str = ""  # its last instruction
    is_whole: bool = False  # it left the stack as it was, and is no condition

    def write(self, path: int, flags: int, reads: Taint) -> None:
        """Note that *path* gets a value computed from *reads*."""
        if path in self.writes:
            old_flags, old = self.writes[path]
            self.entries.pop(path, None)
            flags, reads = (
                old_flags & flags | (old_flags | flags) & FROM_ALL,
                old | reads,
            )
        self.writes[path] = (flags, reads | self.control)

    def absorb(self, later: Statement) -> None:
        """Become one with the statement that follows."""
        self.end = max(self.end, later.end)
        self.line = min(self.line or later.line, later.line or self.line)
        self.flags |= later.flags & ~LOOPS
        self.reads.update(later.reads)
        self.callees |= later.callees
        self.control |= later.control
        self.sites |= later.sites
        self.last = later.last
        self.entries |= {p: e for p, e in later.entries.items() if p not in self.writes}
        for path, (flags, reads) in later.writes.items():
            self.write(path, flags, reads)
        for path, direct in later.direct.items():
            self.direct[path] = self.direct.get(path, NOTHING) | direct


class StackMachine:
    """Splits one code object into statements; see the module."""

    def __init__(self, code: CodeType) -> None:
        """Read the instructions of *code*; run() follows them."""
        self.code = code
        self.paths = Paths(code)
        self.statements: list[Statement] = []
        self.instructions = [*dis.get_instructions(code)]
        self.lines = [0] * (len(code.co_code) // 2)
        for start, end, line in code.co_lines():
            self.lines[start // 2 : end // 2] = [line or 0] * ((end - start) // 2)
        self.stack: list[Item] = []
        self.now = Statement(0)
        self._states: dict[int, list[Item]] = {0: []}
        self._sources: dict[int, list[int]] = {}  # target -> from where
        self._was_clear = True
        self._is_cleanup = False
        self._comprehended: dict[str, Item] = {}
        self._keywords: tuple[str, ...] = ()
        self.site: Taint = NOTHING  # of the instruction that is followed, if it may call something
        self.adds_results = True  # of a comprehension: its items are what was called for
        self._computes = False
        self.takes: set[tuple[int, int]] = set()  # calls, and those whose results they are given
        self.handlers: set[int] = set()
        if sys.version_info >= (3, 11):
            for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
                self.handlers.add(entry.target // 2)
                depth = entry.depth + entry.lasti + 1
                self._states.setdefault(entry.target // 2, [BLOCK] * depth)

    # ---- the walk ---------------------------------------------------------

    def run(self) -> list[Statement]:
        """Return the statements in the order of their instructions."""
        falls = False
        ends = [*(i.offset // 2 for i in self.instructions[1:]), len(self.lines)]
        for instruction, end in zip(self.instructions, ends, strict=True):
            at = instruction.offset // 2
            arrived = self._states.get(at)
            if falls and arrived is not None:
                self.stack = [join(a, b) for a, b in zip(self.stack, arrived, strict=False)]
            elif not falls:
                if arrived is None:  # never reached
                    continue
                self.stack = list(arrived)
            self._begin(at, is_join=arrived is not None, falls=falls)
            self._note(at, instruction.opname)
            self.site = NOTHING
            if instruction.opname.startswith(CALLING):
                self.site = frozenset((site_number(at),))
                self.now.sites.add(at)
            falls = self._step(instruction, at)
            self.now.end = end  # what the instruction has cached is a part of it
            self.now.last = instruction.opname
            self._was_clear = self._is_clear()
        self._close()
        self._merge_choices()
        return self.statements

    def _is_clear(self) -> bool:
        return all(item.is_block for item in self.stack)

    def _close(self) -> None:
        is_part = "_IF_" in self.now.last or (self.now.last == "POP_TOP" and not self.now.writes)
        is_part = is_part and bool(self.now.flags & BRANCHES)  # of `a and b or c`
        self.now.is_whole = self._was_clear and not is_part
        if self.now.end:
            self.statements.append(self.now)

    def _begin(self, at: int, *, is_join: bool, falls: bool) -> None:
        if self.now.end and (self._is_clear() or (self._was_clear and not falls)):
            self._close()
            self.now = Statement(at)
        elif is_join and falls:
            # Two ways to compute one value: all from the choice on is one statement.
            low = min([at, *self._sources.get(at, ())])
            for target in range(at, 0, -1):
                if target > low:
                    low = min([low, *self._sources.get(target, ())])
            while self.statements and self.now.start > low and not self.statements[-1].is_whole:
                earlier = self.statements.pop()
                if self.now.end or self.now.writes:
                    earlier.absorb(self.now)
                self.now = earlier

    def _note(self, at: int, opname: str) -> None:
        line = self.lines[at]
        if line and opname not in {"RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR"}:
            self.now.line = min(self.now.line or line, line)
        if at in self.handlers:
            self.now.flags |= HANDLES
            # What puts a comprehension's variables back is no statement of the user's.
            self._is_cleanup = opname in {"SWAP", "POP_TOP"} and sys.version_info >= (3, 12)

    def _merge_choices(self) -> None:
        """Find `z = a if c else b` whose store the compiler has doubled."""
        found = self.statements
        index = {statement.start: i for i, statement in enumerate(found)}
        for target, sources in sorted(self._sources.items(), reverse=True):
            for source in sorted(sources, reverse=True):
                first = next((i for i, s in enumerate(found) if s.start <= source < s.end), None)
                last = index.get(target)
                if first is None or last is None or last < first + 2 or last >= len(found):
                    continue
                test, one, other = found[first], found[first + 1], found[last]
                if test.writes or not one.writes or other.start != target:
                    continue
                if one.writes.keys() == other.writes.keys() and one.line == other.line <= test.line:
                    for statement in found[first + 1 : last + 1]:
                        test.absorb(statement)
                    del found[first + 1 : last + 1]
                    index = {statement.start: i for i, statement in enumerate(found)}

    def _jump(self, at: int, target: int, stack: list[Item]) -> None:
        if target <= at:
            return
        self._sources.setdefault(target, []).append(at)
        known = self._states.get(target)
        self._states[target] = (
            list(stack)
            if known is None
            else [join(a, b) for a, b in zip(known, stack, strict=False)]
        )

    # ---- one instruction --------------------------------------------------

    def _step(self, instruction: dis.Instruction, at: int) -> bool:
        """Do what the instruction does; say whether the next one may follow it."""
        op, arg = instruction.opname, instruction.arg or 0
        if op in QUIET:
            return True
        method = getattr(self, "do_" + op, None)
        if method is not None:
            method(instruction)
        elif op.startswith(("BINARY_", "INPLACE_", "UNARY_", "COMPARE_", "CONTAINS_", "FORMAT_")):
            self._operate(instruction)
        elif instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            self._branch(instruction, at)
        else:
            self._effect(
                dis.stack_effect(
                    instruction.opcode,
                    arg if instruction.opcode >= dis.HAVE_ARGUMENT else None,
                    jump=False,
                )
            )
            self.now.flags |= CALLS
        return op not in NO_FALL

    def push(self, reads: Taint = NOTHING, path: int = NO_PATH, **more: Any) -> None:
        """Put an entry on the stack."""
        self.stack.append(Item(reads | self.site, path, **more))

    def pop(self) -> Item:
        """Take the top entry; an empty stack gives an empty one."""
        return self.stack.pop() if self.stack else Item()

    def pops(self, count: int) -> list[Item]:
        """Take *count* entries, the deepest first."""
        return [self.pop() for _ in range(count)][::-1]

    def load(self, path: int) -> None:
        """Read a path."""
        self.now.reads.setdefault(path)
        self.push(frozenset((path,)), path)

    def store(self, path: int, item: Item, flags: int = 0) -> None:
        """Write a path."""
        if self._is_cleanup:
            return
        if item.path == path:
            flags |= SAME
        if item.is_part:
            flags |= PART
        if item.entries is not None and path not in self.now.writes:
            self.now.entries[path] = item.entries
        self.now.write(path, flags, item.reads)
        self.now.direct[path] = self.now.direct.get(path, NOTHING) | item.direct

    def _effect(self, effect: int) -> None:
        """Do something we need not know: what goes in comes out."""
        taint = union(self.pops(-effect)) if effect < 0 else NOTHING
        top = self.pop() if self.stack and not self.stack[-1].is_block else None
        if top is not None:
            self.push(top.reads | taint)
        for _ in range(effect):
            self.push(top.reads if top is not None else NOTHING)

    def _operate(self, instruction: dis.Instruction) -> None:
        op = instruction.opname
        self.now.flags |= OPERATES
        if op == "BINARY_SUBSCR":
            return self._subscript()
        effect = dis.stack_effect(
            instruction.opcode, instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
        )
        items = self.pops(1 - effect)
        taint = union(items)
        if op.startswith("INPLACE_") or (op == "BINARY_OP" and instruction.argrepr.endswith("=")):
            path = items[0].path
            self.now.flags |= AUGMENTS
            if path != NO_PATH:
                self.now.write(path, IN_PLACE | MAYBE, taint)
        self.push(taint, formula=result_of(instruction, items))
        return None

    def _item_path(self, base: Item, key: Item) -> int:
        if base.path == NO_PATH:
            return NO_PATH
        if key.const is not None:
            return self.paths.item(base.path, key.const[0])
        if key.path != NO_PATH and self.paths.rows[key.path][0] <= 2:
            return self.paths.item_by(base.path, key.path)
        computed = formula([key])
        return (
            self.paths.opaque(base.path)
            if computed is None
            else self.paths.item_of(base.path, computed)
        )

    def _subscript(self) -> None:
        base, key = self.pops(2)
        path = self._item_path(base, key)
        if path == NO_PATH:
            self.push(base.reads | key.reads, direct=base.direct | self.site)
        else:
            self._refine(base, path, key.reads)

    def _refine(self, base: Item, path: int, more: Taint = NOTHING) -> None:
        """Read a part of what was read: the part takes the place of the whole."""
        self.now.reads.setdefault(path)
        self.push((base.reads - {base.path}) | {path} | more, path, direct=base.direct | self.site)

    def _branch(self, instruction: dis.Instruction, at: int) -> None:
        op, arg = instruction.opname, instruction.arg
        target = int(instruction.argval) // 2
        before = list(self.stack)
        if op in NO_FALL:
            return self._jump(at, target, before)
        if "_IF_" in op and self.stack and not self.stack[-1].is_part:
            self.now.control |= self.stack[-1].reads
        self.now.flags |= BRANCHES
        for jump in (True, False):
            self.stack = list(before)
            effect = dis.stack_effect(instruction.opcode, arg, jump=jump)
            if effect < 0:
                self.pops(-effect)
            else:
                self._effect(effect)
            if jump:
                if self.site and self.stack:  # what an awaited one returned
                    top = self.stack[-1]
                    self.stack[-1] = replace(top, reads=top.reads | self.site, direct=self.site)
                self._jump(at, target, self.stack)
        return None


def site_number(at: int) -> int:
    """Return what stands for the call at an instruction where the numbers of paths do."""
    return NO_PATH - 1 - at
