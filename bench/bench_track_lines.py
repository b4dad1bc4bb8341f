"""What `var_tracker("x")` costs: a line that does not touch x, and 100 lines of which ten do.

Compared with what the seed did at each line: clone the tensor and torch.allclose it.
"""

import os
import sys
import tempfile
import time

import harness
import torch
from timed_lines import LINES, TURNS, extra

from tensortap.track import var_tracker


def plain(x, turns=TURNS):
    total = 0
    start = time.thread_time_ns()
    for k in range(turns):
        total = total + k
        last = total
        if last > 3:
            total = 0
    return (time.thread_time_ns() - start) / turns / LINES


def assigned(x, turns=TURNS):
    x = x + 1  # the code stores x elsewhere: its other lines stay cheap
    total = 0
    start = time.thread_time_ns()
    for k in range(turns):
        total = total + k
        last = total
        if last > 3:
            total = 0
    return (time.thread_time_ns() - start) / turns / LINES


def hundred():
    """Make a function of 100 lines in which every tenth changes x."""
    body = ["x.add_(1)" if i % 10 == 9 else f"a = {i}" for i in range(100)]
    space = {}
    exec(
        compile(
            "def hundred(x):\n" + "".join(f"    {line}\n" for line in body), "<hundred>", "exec"
        ),
        space,
    )
    return space["hundred"]


def cloning(call, x):
    """Run *call* as the seed's tracer does."""
    last = None

    def local(frame, event, arg):
        nonlocal last
        now = frame.f_locals.get("x")
        if now is not None and (
            last is None or now.shape != last.shape or not torch.allclose(now, last, atol=1e-5)
        ):
            print("x changed", now.shape, now.dtype)
            last = now.clone()
        return local

    sys.settrace(lambda frame, event, arg: local if frame.f_code is call.__code__ else None)
    try:
        call(x)
    finally:
        sys.settrace(None)


def main():
    x = torch.zeros(512, 512)
    tracked_plain = var_tracker("x")(plain)
    tracked_assigned = var_tracker("x")(assigned)
    bare = hundred()
    tracked = var_tracker("x")(bare)
    out = sys.stdout
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nothing:
        os.environ["TENSORTAP_LOG_DIR"] = folder
        sys.stdout = nothing
        try:
            (untouched,) = extra(lambda: plain(x), lambda: tracked_plain(x))
            (beside,) = extra(lambda: assigned(x), lambda: tracked_assigned(x))
            without, ours, theirs = harness.times(
                lambda: bare(x), lambda: tracked(x), lambda: cloning(bare, x), turns=9
            )
        finally:
            sys.stdout = out
    harness.row("track: a line that cannot touch x", untouched, 80, unit="ns more", at_most=True)
    what = "track: the same where x is assigned elsewhere"
    harness.row(what, beside, 80, unit="ns more", at_most=True)
    ratio = (theirs - without) / (ours - without)
    harness.row(
        "track: 1 MB, every tenth of 100 lines, less than clone and allclose", ratio, 10, unit="x"
    )


main()
