"""What `auto_diff` costs: two 64 x 64 tensors in, one out, logged to a file.

Standard output goes to /dev/null; the log to a temporary folder.  Beside it the text
that the seed made: sum, mean, min and max of each by torch.
"""

import os
import sys
import tempfile
from statistics import median

import harness
import torch

from tensortap.track import auto_diff

torch.set_num_threads(1)


def add(x, y):
    return x


def formatted(x, y):
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


def main():
    x, y = torch.randn(64, 64), torch.randn(64, 64)
    logged = auto_diff(add)
    out = sys.stdout
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nothing:
        os.environ["TENSORTAP_LOG_DIR"] = folder
        sys.stdout = nothing
        try:
            ours, theirs = [], []
            for _ in range(7):
                ours.append(harness.per_call(lambda: logged(x, y), loops=1000, turns=3))
                theirs.append(harness.per_call(lambda: formatted(x, y), loops=300, turns=3))
        finally:
            sys.stdout = out
    harness.row("track: auto_diff, a call", min(ours) * 1e6, 25, unit="µs", at_most=True)
    ratio = median(t / o for t, o in zip(theirs, ours, strict=True))
    harness.row("track: less than formatting with torch", ratio, 5, unit="x")


main()
