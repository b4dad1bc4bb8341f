"""Measure two things side by side and say how they compare.

Everything here is a ratio, or a time, from one process: the two calls alternate,
so that a busy machine slows both, and the median of many turns is taken.  Read speed,
which changes from one second to the next, is compared pair by pair.
A script prints one JSON line a row; run_all.py makes the table.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import json
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TURNS = 15
Call = Callable[[], object]


def row(
    what: str, value: float, bar: float | None, *, unit: str = "", at_most: bool = False
) -> None:
    """Print one measured row; *at_most* turns the bar around, without a bar it is only told."""
    holds = bar is None or (value <= bar if at_most else value >= bar)
    line = {
        "what": what,
        "value": value,
        "bar": bar,
        "unit": unit,
        "at_most": at_most,
        "holds": holds,
    }
    print(json.dumps(line), flush=True)


def seconds(call: Call) -> float:
    """Return the processor time of one call in this thread.

    Not the time on the wall: where programs wait for a core, the longer of two calls
    would be interrupted more often.
    """
    start = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - start) / 1e9


def times(*calls: Call, turns: int = TURNS, before: Call | None = None) -> list[float]:
    """Return the median time of each call; the calls take turns, *before* each of them."""
    for call in calls:
        call()  # pages, caches, lazy imports
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(turns):
        for call, mine in zip(calls, taken, strict=True):
            if before is not None:
                before()
            mine.append(seconds(call))
    return [median(mine) for mine in taken]


def per_call(call: Call, *, loops: int = 2000, turns: int = TURNS) -> float:
    """Return the best time of one call of a function too short to be timed alone.

    The best, not the median: a time that is not a ratio has nothing beside it that a
    busy machine would slow as well.
    """

    def many() -> None:
        for _ in range(loops):
            call()

    def none() -> None:
        for _ in range(loops):
            empty()

    def empty() -> None: ...

    with_call = min(seconds(many) for _ in range(turns))
    without = min(seconds(none) for _ in range(turns))
    return (with_call - without) / loops


def reader() -> Callable[[int, int], object]:
    """Return read(address, bytes), the plain sum that everything is compared with."""
    folder = ROOT / ".build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    source, library = ROOT / "bench" / "read_speed.c", folder / "read_speed.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        flags = ["-mavx2"] if platform.machine() == "x86_64" else []
        subprocess.run(
            ["cc", "-O3", "-shared", "-fPIC", *flags, str(source), "-o", str(library)], check=True
        )
    read_sum = ctypes.CDLL(str(library)).read_sum
    read_sum.restype = ctypes.c_float
    read_sum.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return lambda address, size: read_sum(address, size // 4)


def ratio(call: Call, other: Call, *, turns: int = 2 * TURNS + 1, before: Call) -> float:
    """Return how much longer *other* takes than *call*: the median over pairs next to each other.

    Each of a pair goes first as often as the other, so that it does not matter what the
    one before left behind.
    """
    call(), other()  # pages, caches, lazy imports
    ratios: list[float] = []
    for turn in range(turns):
        taken: dict[Call, float] = {}
        for each in (call, other) if turn % 2 == 0 else (other, call):
            before()
            taken[each] = seconds(each)
        ratios.append(taken[other] / taken[call])
    return median(ratios)


def of_read_speed(call: Call, *tensors: Any) -> float:
    """Return the speed of *call* as a part of the plain read speed of its tensors' storages.

    The same memory is read by both.  Out of cache: other memory is read before each turn,
    which is not counted.
    """
    import torch

    read = reader()
    other = torch.ones(24 << 20)
    storages = [tensor.untyped_storage() for tensor in tensors]

    def plain() -> None:
        for storage in storages:
            read(storage.data_ptr(), storage.nbytes())

    return ratio(call, plain, before=lambda: read(other.data_ptr(), other.nbytes))


def peak_extra(call: Call) -> int:
    """Return by how many bytes the process grew, at most, during *call*."""
    status = Path("/proc/self/status")

    def field(name: str) -> int:
        line = next(line for line in status.read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) * 1024

    call()  # code pages and what is loaded once are not the call's
    ctypes.CDLL(None).malloc_trim(0)  # what it freed must not serve it again unseen
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest size so far
    before = field("VmRSS")
    call()
    return max(0, field("VmHWM") - before)
