"""What the line source costs a consumer that wants one name: a line, and coming and going.

Processor time, not the clock on the wall: one thread, and other programs may run.
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


def lines(turns):
    x = make()
    total, found = 0, [1, 2, 3]
    start = time.thread_time_ns()
    for k in range(turns):
        total = total + k
        last = found
        if total > 3:
            total = 0
    return (time.thread_time_ns() - start) / turns / LINES, x, last


def watched(call, **options):
    with _core.watch_lines(
        lambda event: None, codes=[lines.__code__], names=["x"], arrays=True, **options
    ):
        return call()


def coming_and_going(turns):
    start = time.thread_time_ns()
    for _ in range(turns):
        _core.watch_lines(codes=[lines.__code__], names=["x"]).close()
    return (time.thread_time_ns() - start) / turns / 1000


def short():
    x = 1
    return x


def with_a_call(turns):
    start = time.thread_time_ns()
    for _ in range(turns):
        with _core.watch_lines(codes=[short.__code__], names=["x"], objects=True):
            short()
    return (time.thread_time_ns() - start) / turns / 1000


def main():
    plain, ours, objects = [], [], []
    for _ in range(15):
        plain.append(lines(TURNS)[0])
        ours.append(watched(lambda: lines(TURNS))[0])
        objects.append(watched(lambda: lines(TURNS), touches=True)[0])
    bar, come, call = (80, 10, 15) if sys.version_info < (3, 12) else (60, 40, 50)
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    extra = [median(o - p for o, p in zip(one, plain, strict=True)) for one in (ours, objects)]
    harness.row(
        f"line source: a line without the name, {version}",
        extra[0],
        bar,
        unit="ns more",
        at_most=True,
    )
    harness.row("line source: the same, objects too", extra[1], bar, unit="ns more", at_most=True)
    coming_and_going(100)
    with_a_call(100)
    harness.row(
        "line source: add and remove a consumer",
        min(coming_and_going(500) for _ in range(9)),
        come,
        unit="us",
        at_most=True,
    )
    harness.row(
        "line source: the same around a call",
        min(with_a_call(500) for _ in range(9)),
        call,
        unit="us",
        at_most=True,
    )


main()
