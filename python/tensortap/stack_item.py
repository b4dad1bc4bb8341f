"""What lies on the imagined stack: not values, but where they come from.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensortap.paths import NO_PATH, Formula

#: Numbers of paths, and of calls (below NO_PATH), that a value was computed from.
Taint = frozenset[int]
NOTHING: Taint = frozenset()
#: Keys, and where what is there comes from.
Entries = tuple[tuple[Any, "Item"], ...]


@dataclass(frozen=True)
class Item:
    """One entry of the stack."""

    reads: Taint = NOTHING
    path: int = NO_PATH  # it is exactly what is there
    is_block: bool = False
    const: tuple[Any] | None = None
    parts: tuple[Item, ...] | None = None  # of a tuple or list that was built here
    direct: Taint = NOTHING  # calls whose result, or a part of it, this is or holds
    saved: str | None = None  # a comprehension's variable, put aside
    is_range: bool = False
    formula: Formula | None = None  # how it was computed, if it may be a key
    computes: bool = False  # a comprehension that calls, but not for its items themselves
    is_part: bool = False  # taken out of something as it is: a loop's item, an unpacked one
    entries: Entries | None = None  # of a list or dict that was built here, by their keys
    #: An in-place method's result is what is at this path; with the name of a method of it.
    receiver: tuple[int, str] | None = None


BLOCK = Item(is_block=True)


def join(a: Item, b: Item) -> Item:
    """Return what is there after either of two ways."""
    if a == b:
        return a
    return Item(
        a.reads | b.reads,
        NO_PATH,
        a.is_block and b.is_block,
        direct=a.direct | b.direct,
        saved=a.saved,
    )


def direct(items: list[Item]) -> Taint:
    """Return the calls whose results are in what is built of them."""
    return NOTHING.union(*(item.direct for item in items))


def union(items: list[Item]) -> Taint:
    """Return what all of them were computed from."""
    return NOTHING.union(*(item.reads for item in items))
