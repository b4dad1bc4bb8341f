"""Fold layers that are alike and follow each other: h.0, h.1, ... are h.0-5 x 6.

The core finds them, by the rule that folds the tree of a run.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from tensortap import _core

LONGEST_BLOCK = 200  # entries


def folded(labels: Sequence[str], kinds: Sequence[Hashable]) -> list[tuple[str, int]]:
    """Fold the blocks of a list of layers into the first one, where they follow each other.

    Args:
        labels: Paths such as "h.3.attn".
        kinds: What else must be equal for two entries to be alike, besides the names in the path.

    Returns:
        For each entry, its label and the place of the entry that stands for it: its own, and then
        the label may be "h.0-5.attn x 6", or that of the same entry in the first block.
    """
    numbers = [_numbers(label) for label in labels]
    alike = _numbered([(_pattern(label), kind) for label, kind in zip(labels, kinds, strict=True)])
    keys = [key if own else 0 for key, own in zip(_numbered(numbers), numbers, strict=True)]
    result = [(label, i) for i, label in enumerate(labels)]
    for at, length, times in _core._fold(alike, keys, LONGEST_BLOCK):
        for i in range(at, at + length):
            last = numbers[i + length * (times - 1)]
            result[i] = _ranged(labels[i], numbers[i], last, times), i
            for again in range(i + length, i + length * times, length):
                result[again] = labels[again], i
    return result


def _numbered(values: Iterable[Hashable]) -> list[int]:
    """Return a number for each value, from 1: equal values, equal numbers."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known) + 1) for value in values]


def _numbers(label: str) -> tuple[str, ...]:
    return tuple(part for part in label.split(".") if part.isdecimal())


def _pattern(label: str) -> str:
    return ".".join("#" if part.isdecimal() else part for part in label.split("."))


def _ranged(label: str, first: tuple[str, ...], last: tuple[str, ...], times: int) -> str:
    """Return "h.0-5.attn x 6" for h.0.attn; a label without such a number stays as it is."""
    if first == last:
        return label
    ends = iter(zip(first, last, strict=True))
    parts = []
    for part in label.split("."):
        if part.isdecimal():
            low, high = next(ends)
            part = low if low == high else f"{low}-{high}"
        parts.append(part)
    return f"{'.'.join(parts)} x {times}"
