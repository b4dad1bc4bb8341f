"""What a line of plain Python costs under the line source, ten tensor locals around it.

Processor time, not the clock on the wall: one thread, and other programs may run.
Torch tensors where torch is installed, else NumPy arrays.
"""

import ctypes
import subprocess
import sys
import sysconfig
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


def empty_tracer():
    """Build the least trace function that there can be; what it costs is Python's own."""
    folder = harness.ROOT / ".build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    include = sysconfig.get_paths()["include"]
    source, library = harness.ROOT / "bench" / "empty_tracer.c", folder / "empty_tracer.so"
    command = ["cc", "-O3", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.PyDLL(str(library)).empty_tracer_set


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
    plain, ours, theirs, bare, quiet, least = [], [], [], [], [], []
    is_old = sys.version_info < (3, 12)
    set_empty = empty_tracer() if sys.version_info[:2] == (3, 11) else None
    for _ in range(15):
        plain.append(selected(TURNS)[0])
        ours.append(watched(lambda: selected(TURNS))[0])
        bare.append(unselected(TURNS)[0])
        quiet.append(watched(lambda: unselected(TURNS))[0])
        if set_empty is not None:
            set_empty(1)
            least.append(unselected(TURNS)[0])
            set_empty(0)
    for _ in range(3):
        theirs.append(traced(lambda: selected(TURNS // 40))[0])
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    extra = median(o - p for o, p in zip(ours, plain, strict=True))
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
    if least:
        ratio = median(q / e for q, e in zip(quiet, least, strict=True))
        harness.row(
            "line source: the same, against an empty trace function in C",
            ratio,
            1.05,
            unit="x",
            at_most=True,
        )


main()
