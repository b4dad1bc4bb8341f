"""Find layers that are alike and follow each other: h.0, h.1, ... are h.0-5 x 6.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

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
    known: dict[Hashable, int] = {}
    alike = [
        known.setdefault((_pattern(label), kind), len(known))
        for label, kind in zip(labels, kinds, strict=True)
    ]
    result = [(label, i) for i, label in enumerate(labels)]
    at = 0
    while at < len(labels):
        length, times = _repeated(alike, numbers, at)
        for i in range(at, at + length):
            last = numbers[i + length * (times - 1)]
            result[i] = _ranged(labels[i], numbers[i], last, times), i
            for again in range(i + length, i + length * times, length):
                result[again] = labels[again], i
        at += max(length * times, 1)
    return result


def _repeated(kinds: list[int], numbers: list[list[str]], at: int) -> tuple[int, int]:
    """Return length and number of the equal blocks at *at* that save most; (0, 1): none."""
    best = (0, 1)
    longest = min((len(kinds) - at) // 2, LONGEST_BLOCK)
    # Blocks of one list differ by a number in their labels, which lines in a loop do not have.
    shortest = next((n for n in range(1, longest + 1) if numbers[at + n - 1]), longest + 1)
    for length in range(shortest, longest + 1):
        first = kinds[at : at + length]
        times = 1
        while kinds[at + times * length : at + (times + 1) * length] == first and (
            numbers[at + times * length : at + (times + 1) * length]
            != numbers[at + (times - 1) * length : at + times * length]  # the next layer, no loop
        ):
            times += 1
        if (times - 1) * length > (best[1] - 1) * best[0]:
            best = length, times
    return best


def _numbers(label: str) -> list[str]:
    return [part for part in label.split(".") if part.isdecimal()]


def _pattern(label: str) -> str:
    return ".".join("#" if part.isdecimal() else part for part in label.split("."))


def _ranged(label: str, first: list[str], last: list[str], times: int) -> str:
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
