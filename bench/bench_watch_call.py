"""One watched module call with its statistics on an 8 x 64 output, over an unwatched one.

Less than nothing is possible: a watched module without hooks does not go through
`nn.Module._call_impl`, which costs more than the statistics.
"""

import tempfile
import time
from statistics import median

import harness
import torch

from tensortap import _core
from tensortap.runs.watch import watch

torch.set_num_threads(1)


class Same(torch.nn.Module):
    """The cheapest forward, so that only the watching counts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


model, x = Same(), torch.randn(8, 64)
LOOPS = 2000


def turn() -> float:
    start = time.perf_counter_ns()
    for _ in range(LOOPS):
        model(x)
    return (time.perf_counter_ns() - start) / LOOPS / 1e3


def hooked() -> float:
    handle = model.register_forward_hook(lambda *_: None)
    try:
        return turn()
    finally:
        handle.remove()


with tempfile.TemporaryDirectory() as folder:
    recorder = _core.Recorder(folder + "/run")

    def watched() -> float:
        handle = watch(model, run=recorder, grads=None)
        try:
            turn()  # names are made once
            return turn()
        finally:
            handle.remove()

    turn(), watched(), hooked()
    ours, theirs = [], []
    for _ in range(31):
        before = turn()
        ours.append(watched() - before)
        theirs.append(hooked() - before)
    recorder.close()
harness.row(
    "one watched call with its stats, over an unwatched one",
    median(ours),
    0.4,
    unit="us",
    at_most=True,
)
harness.row(
    "the same, of what an empty Python forward hook costs",
    median(ours) / median(theirs) * 100,
    25,
    unit="%",
    at_most=True,
)
