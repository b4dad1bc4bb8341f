"""Say what the instructions of a `match` statement do to the imagined stack.

SPDX-License-Identifier: Apache-2.0
"""

# ruff: noqa: D102 -- do_X does what instruction X does

from __future__ import annotations

from dis import Instruction

from tensortap.name_opcodes import VERSION, NameOpcodes
from tensortap.paths import NO_PATH
from tensortap.stack_item import Item, union
from tensortap.stack_machine import CALLS


class MatchOpcodes(NameOpcodes):
    """A stack machine that knows names, and what patterns take out of a value."""

    def do_GET_LEN(self, i: Instruction) -> None:
        self.push()  # what kind of thing a value is says nothing of the tensors in it

    do_MATCH_SEQUENCE = do_MATCH_MAPPING = do_GET_LEN

    def do_MATCH_KEYS(self, i: Instruction) -> None:
        subject, keys = self.pops(2)
        self.stack += [subject, keys]
        wanted = keys.const[0] if keys.const and subject.path != NO_PATH else ()
        self._take(subject, [self.paths.item(subject.path, key) for key in wanted])

    def do_MATCH_CLASS(self, i: Instruction) -> None:
        subject, _, names = self.pops(3)
        is_told = names.const and subject.path != NO_PATH and not i.arg
        wanted = names.const[0] if names.const and is_told else ()
        self._take(subject, [self.paths.attribute(subject.path, name) for name in wanted])

    def _take(self, subject: Item, paths: list[int]) -> None:
        """Push what is at *paths*, or something of the subject if they are not known."""
        parts = tuple(Item(frozenset((path,)), path) for path in paths)
        for path in paths:
            self.now.reads.setdefault(path)
        self.now.flags |= CALLS
        self.push(union([*parts]) if parts else subject.reads, parts=parts or None, is_part=True)
        if VERSION < (3, 11):
            self.push()  # whether it matched
