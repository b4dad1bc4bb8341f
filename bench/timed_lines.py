"""What the benchmarks of lines share: tensors of the library there is, and what a line costs more.

A turn takes about a millisecond and is followed at once by the one it is compared with; of
many such pairs the median difference is taken, so that a busy machine slows both or spoils
few.  Processor time, not the clock on the wall: one thread, and other programs may run.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]
else:
    torch.set_num_threads(1)

PAIRS = 301
TURNS = 2_000  # of a loop
LINES = 5  # of the loop below
IS_OLD = sys.version_info < (3, 12)
VERSION = f"Python {sys.version_info.major}.{sys.version_info.minor}"
Turn = Callable[[], float]


def make() -> Any:
    """Return a small tensor, or an array where there is no torch."""
    return torch.ones(8, 8) if torch is not None else np.ones((8, 8))


def plain_loop(turns: int = TURNS) -> float:
    """Return the nanoseconds of a line of plain Python, nothing else around."""
    total = 0
    start = time.thread_time_ns()
    for k in range(turns):
        total = total + k
        last = total * 3 % 7
        if last > 3:
            total = 0
    return (time.thread_time_ns() - start) / turns / LINES


def paired(plain: Turn, *others: Turn, pairs: int = PAIRS) -> list[list[tuple[float, float]]]:
    """Return (plain, other) of each turn, for each of the others."""
    found: list[list[tuple[float, float]]] = [[] for _ in others]
    for turn in (plain, *others):
        turn()  # code is specialised, tables are made
    for _ in range(pairs):
        for other, mine in zip(others, found, strict=True):
            mine.append((plain(), other()))
    return found


def extra(plain: Turn, *others: Turn, pairs: int = PAIRS) -> list[float]:
    """Return by how much a line of each is more than a plain one."""
    return [median(o - p for p, o in one) for one in paired(plain, *others, pairs=pairs)]


def ratios(plain: Turn, *others: Turn, pairs: int = PAIRS) -> list[float]:
    """Return how many times as long each of the others takes."""
    return [median(o / p for p, o in one) for one in paired(plain, *others, pairs=pairs)]
