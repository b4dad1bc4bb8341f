"""What `auto_diff` costs: two 64 x 64 tensors in, one out, logged to a file.

Standard output goes to /dev/null; the log to a temporary folder.  Beside it the text
that the seed made: sum, mean, min and max of each by torch.
"""

import os
import sys
import tempfile
import time
from statistics import median

import harness
import torch

from tensortap.track import auto_diff

torch.set_num_threads(1)


OURS, THEIRS, TURNS = 200, 40, 60  # calls in a turn: about as long for both


def add(x, y):
    return x


def formatted(x, y):
    """Format what went in and what came out; printing and writing it would come on top."""
    texts = []
    for t in (x, y, x):
        info = {
            "sum": t.sum().item(),
            "mean": t.mean().item(),
            "min": t.min().item(),
            "max": t.max().item(),
        }
        texts.append(f"shape={t.shape} | dtype={t.dtype} | {info}")
    return texts


def per_call(call, x, y, loops):
    start = time.thread_time_ns()
    for _ in range(loops):
        call(x, y)
    return (time.thread_time_ns() - start) / loops / 1e3


def main():
    x, y = torch.randn(64, 64), torch.randn(64, 64)
    logged = auto_diff(add)
    out = sys.stdout
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nothing:
        os.environ["TENSORTAP_LOG_DIR"] = folder
        sys.stdout = nothing
        try:
            pairs = [
                (per_call(logged, x, y, OURS), per_call(formatted, x, y, THEIRS))
                for _ in range(TURNS)
            ]
        finally:
            sys.stdout = out
    ours = median(mine for mine, _ in pairs)
    harness.row("track: auto_diff, a call", ours, 25, unit="us", at_most=True)
    ratio = median(theirs / mine for mine, theirs in pairs)
    harness.row("track: less than formatting with torch", ratio, 5, unit="x")


main()
