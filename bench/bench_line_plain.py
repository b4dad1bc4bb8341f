"""What a line of plain Python costs under the line source, ten tensor locals around it."""

import sys
import time

import harness
import numpy as np
from timed_lines import IS_OLD, LINES, TURNS, VERSION, extra, make, plain_loop, ratios, torch

from tensortap import _core


def selected(turns=TURNS):
    a, b, c, d, e, f, g, h, i, j = (make() for _ in range(10))
    total = 0
    start = time.thread_time_ns()
    for k in range(turns):
        total = total + k
        last = total
        if last > 3:
            total = 0
    taken = time.thread_time_ns() - start
    del a, b, c, d, e, f, g, h, i, j
    return taken / turns / LINES


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def calls():
    start = time.thread_time_ns()
    fibonacci(16)
    return time.thread_time_ns() - start


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
    with _core.watch_lines(
        lambda event: None,
        select=lambda code: code is selected.__code__,
        arrays=torch is None,
    ):
        return call()


def traced():
    sys.settrace(slow_tracer(selected.__code__))
    try:
        return selected(TURNS // 40)
    finally:
        sys.settrace(None)


def main():
    (ours,) = extra(selected, lambda: watched(selected))
    (theirs,) = extra(selected, traced, pairs=9)
    loop, call = (
        ratios(plain, lambda plain=plain: watched(plain))[0] for plain in (plain_loop, calls)
    )
    bar = 80 if IS_OLD else 60
    what = f"line source: a plain line, {VERSION}"
    harness.row(what, ours, bar, unit="ns more", at_most=True)
    harness.row("line source: less than a tracer in Python", theirs / ours, 40, unit="x")
    bar = 2.5 if IS_OLD else 1.03
    harness.row("line source: a loop nobody selected", loop, bar, unit="x", at_most=True)
    harness.row("line source: calls nobody selected", call, bar, unit="x", at_most=True)


main()
