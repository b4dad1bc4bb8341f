"""A value that an expression computes: not the value itself, but where it comes from.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tensortap.analysis.paths import NO_PATH, PLAIN, Formula

#: Numbers of paths, and of calls (below NO_PATH), that a value was computed from.
Reads = frozenset[int]
NOTHING: Reads = frozenset()
#: Keys, and where what is there comes from.
Entries = tuple[tuple[Any, "Value"], ...]

LONGEST = 16  # lines/key.c has room for no more


@dataclass(slots=True)
class Value:
    """Where a value comes from. Never changed after it was made."""

    reads: Reads = NOTHING
    path: int = NO_PATH  # it is exactly what is there
    direct: Reads = NOTHING  # calls whose result, or a part of it, this is or holds
    is_part: bool = False  # taken out of something as it is: a loop's item, an unpacked one
    const: tuple[Any] | None = None
    parts: Sequence[Value] | None = None  # of a tuple or list that was built here
    entries: Entries | None = None  # of a list or dict that was built here, by their keys
    formula: Formula | None = None  # how it was computed, if it may be a key
    is_range: bool = False
    #: An in-place method's result is what is at this path; with the name of a method of it.
    receiver: tuple[int, str] | None = None


def join(a: Value, b: Value) -> Value:
    """Return what either of two expressions gives."""
    return Value(a.reads | b.reads, direct=a.direct | b.direct)


def direct(values: Iterable[Value]) -> Reads:
    """Return the calls whose results are in what is built of the values."""
    return NOTHING.union(*[value.direct for value in values])


def union(values: Iterable[Value]) -> Reads:
    """Return what all of them were computed from."""
    return NOTHING.union(*[value.reads for value in values])


def formula(values: Iterable[Value], *last: Any) -> Formula | None:
    """Return how lines/key.c can compute a key from the values; None: that cannot be told.

    `xs[i - 1]`, `cache[layer, "k"]` and `cache[f"k{i}"]` name an item as well as `xs[0]` does.
    """
    made: list[Any] = []
    for value in values:
        part = value.formula
        if value.const is not None:
            part = ((value.const[0],),) if type(value.const[0]) in PLAIN else None
        elif value.path != NO_PATH:
            part = (value.path,)
        elif value.parts is not None:
            part = formula(value.parts, -len(value.parts))
        if part is None:
            return None
        made += part
    return (*made, *last) if len(made) < LONGEST else None
