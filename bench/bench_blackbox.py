"""A black box that is armed: its cost of a step, its memory, and the time to write it.

Steps with the box and without it alternate, one by one, and the first of each pair changes: a
machine that is now faster and now slower does not favour one of them.  The box counts both, so a
snapshot every 2 K steps is one in K steps with it.
"""

import os
import random
import tempfile
import time
from pathlib import Path
from statistics import mean, median, stdev

import harness
import torch
from torch import nn

from tensortap.blackbox import file
from tensortap.blackbox.box import Box
from tensortap.blackbox.memory import Kept, Memory
from tensortap.runs.record import record

K, TURNS = 8, 20
torch.set_num_threads(1)
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(8, 64, 256)


def step() -> None:
    """Train for one step."""
    model(run.batch(x)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def pairs() -> dict[bool, list[float]]:
    """Return the times of K steps with the box, one snapshot included, and of K without it."""
    global is_armed
    taken: dict[bool, list[float]] = {True: [], False: []}
    for i in range(2 * K):
        is_armed = i % 4 in (0, 3)
        start = time.thread_time()
        step()
        taken[is_armed].append(time.thread_time() - start)
    return taken


def typical(turns: list[list[float]]) -> float:
    """Return the mean of K steps, each the median of its turns: one of them has the snapshot."""
    return mean(median(one) for one in zip(*turns, strict=True))


def copy() -> None:
    """Copy the batches of K steps."""
    for _ in range(K):
        x.clone()


spent = 0
is_armed = True
inner = Box._quietly


def timed(self: Box, *args: object) -> None:
    """Add up the time of everything that the box does; do nothing if it is not armed."""
    global spent
    if not is_armed:
        return
    start = time.thread_time_ns()
    inner(self, *args)
    spent += time.thread_time_ns() - start


Box._quietly = timed
ratios, differences = [], []
with (
    tempfile.TemporaryDirectory() as folder,
    record(f"{folder}/run", model=model, black_box=2 * K) as run,
):
    box = run.box
    assert box is not None
    for _ in range(3):
        pairs()  # both snapshots have their memory
    for _ in range(TURNS):
        spent = 0
        taken = pairs()
        copied = harness.seconds(copy)
        ratios.append((spent / 1e9 - copied) / sum(taken[False]))
        both = zip(taken[True], taken[False], strict=True)
        differences.append([(armed - copied / K) / plain - 1 for armed, plain in both])
    state = sum(t.numel() * t.element_size() for t in model.parameters()) * 3
    kept = [memory for step in box.steps for memory in step.memories()] + box.free
    held = sum(kept.memory.size for _, kept in box.snapshots) + sum(memory.size for memory in kept)
    allowed = 2 * state + 2 * K * x.numel() * x.element_size()

harness.row(
    "armed, snapshots every 8 steps included, of the step without its batch's copy",
    median(ratios) * 100,
    1,
    unit="%",
    at_most=True,
)
harness.row(
    "... the same as a difference: armed steps and others in turn, medians of 20 times 8",
    typical(differences) * 100,
    1,
    unit="%",
    at_most=True,
)
again = [typical(random.choices(differences, k=TURNS)) for _ in range(500)]
harness.row("... the standard error of that difference", stdev(again) * 100, None, unit="%")
harness.row(
    "armed: memory beyond two snapshots and 16 batches",
    (held - allowed) / 1e6,
    16,
    unit="MB",
    at_most=True,
)

tensor = torch.randn(25 << 20)
kept = Kept({"x": tensor}, Memory())
with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
    path = Path(folder) / "blackbox" / "step0" / "rank0.safetensors"

    def dump() -> None:
        file.write(path, {}, [("x", kept.memory)])

    def plain() -> None:
        with open(f"{folder}/plain", "wb") as out:
            out.write(kept.memory.block)
            out.flush()
            os.fsync(out.fileno())
        os.unlink(f"{folder}/plain")

    taken = harness.times(dump, plain, turns=5)
harness.row("a dump of 100 MB, of a plain write", taken[0] / taken[1], 1.2, at_most=True)
