"""What a line of plain Python costs under the line source, ten tensor locals around it.

Processor time, not the clock on the wall: one thread, and other programs may run.
Torch tensors where torch is installed, else NumPy arrays.
"""

import sys
import time
from statistics import median

import harness
import numpy as np

from tensortap import _core

try:
    import torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

LINES = 5  # of the loop, each turn
TURNS = 40_000


def make():
    return torch.ones(8, 8) if torch is not None else np.ones((8, 8))


def selected(turns):
    a, b, c, d, e, f, g, h, i, j = (make() for _ in range(10))
    total = 0
    start = time.thread_time_ns()
    for k in range(turns):
        total = total + k
        last = total
        if last > 3:
            total = 0
    return (time.thread_time_ns() - start) / turns / LINES, a, b, c, d, e, f, g, h, i, j


def unselected(turns):
    total = 0
    start = time.thread_time_ns()
    for k in range(turns):
        total = total + k
        last = total * 3 % 7
        if last > 3:
            total = 0
    return (time.thread_time_ns() - start) / turns / LINES, total


def slow_tracer(code):
    """Do in Python what the tools before did at each line, for comparison."""

    def local(frame, event, arg):
        for value in list(frame.f_locals.values()):
            if torch is not None and isinstance(value, torch.Tensor):
                seen.append((id(value), value._version, value.shape, value.dtype, value.device))
            elif isinstance(value, np.ndarray):
                seen.append((id(value), value.shape, value.dtype))
        seen.clear()
        return local

    seen = []
    return lambda frame, event, arg: local if frame.f_code is code else None


def watched(call):
    with _core.watch_lines(lambda event: None, codes=[selected.__code__], arrays=torch is None):
        return call()


def traced(call):
    sys.settrace(slow_tracer(selected.__code__))
    try:
        return call()
    finally:
        sys.settrace(None)


def main():
    plain, ours, theirs, bare, quiet = [], [], [], [], []
    for _ in range(15):
        plain.append(selected(TURNS)[0])
        ours.append(watched(lambda: selected(TURNS))[0])
        bare.append(unselected(TURNS)[0])
        quiet.append(watched(lambda: unselected(TURNS))[0])
    for _ in range(3):
        theirs.append(traced(lambda: selected(TURNS // 40))[0])
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    extra = median(o - p for o, p in zip(ours, plain, strict=True))
    is_old = sys.version_info < (3, 12)
    harness.row(
        f"line source: a plain line, {version}",
        extra,
        80 if is_old else 60,
        unit="ns more",
        at_most=True,
    )
    harness.row(
        "line source: least of 15",
        min(ours) - min(plain),
        80 if is_old else 60,
        unit="ns more",
        at_most=True,
    )
    harness.row(
        "line source: less than a tracer in Python",
        (median(theirs) - median(plain)) / extra,
        40,
        unit="x",
    )
    ratio = median(q / b for q, b in zip(quiet, bare, strict=True))
    harness.row(
        "line source: a loop nobody selected",
        ratio,
        2.5 if is_old else 1.03,
        unit="x",
        at_most=True,
    )


main()
