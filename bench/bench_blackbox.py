"""A black box that is armed: its cost of a step, its memory, and the time to write it.

Steps with the box and without it alternate, one by one, and the first of each pair changes: a
machine that is now faster and now slower does not favour one of them.  The box counts both, so a
snapshot every 2 K steps is one in K steps with it.  Without it, its callbacks return at once; the
run records the model in all steps.

Two rows say the same.  One adds up the time in the callbacks.  The other is the difference of
armed steps and others, which also has what the box does to the rest of the step, through the
caches; it goes on until it is known to 0.2 % of a step, or for MOST turns.
"""

import ctypes
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
from tensortap.blackbox.writer import Writer
from tensortap.runs.record import record

K, LEAST, MOST = 8, 20, 400  # a turn is 2 K steps
ENOUGH = 0.002  # of a step: standard error of the difference
# Freed memory stays in the process: pages that come anew cost up to 8 % of a step, now and then.
ctypes.CDLL(None).mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
ctypes.CDLL(None).mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD
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


Times = dict[bool, list[float]]


def pairs() -> tuple[Times, Times]:
    """Return processor and wall times of K steps with the box and of K without it."""
    global is_armed
    cpu: Times = {True: [], False: []}
    wall: Times = {True: [], False: []}
    for i in range(2 * K):
        is_armed = i % 4 in (0, 3)
        start = time.perf_counter(), time.thread_time()
        step()
        cpu[is_armed].append(time.thread_time() - start[1])
        wall[is_armed].append(time.perf_counter() - start[0])
    return cpu, wall


def excess(taken: Times, copied: float) -> list[float]:
    """Return by how much each armed step is longer than the one beside it, without a copy."""
    both = zip(taken[True], taken[False], strict=True)
    return [(armed - copied / K) / plain - 1 for armed, plain in both]


def typical(turns: list[list[float]]) -> float:
    """Return the mean of K steps, each the mean of the middle half of its turns.

    One of the K steps has the snapshot, in every turn.
    """
    quarter = len(turns) // 4
    return mean(mean(sorted(one)[quarter:-quarter]) for one in zip(*turns, strict=True))


def error(turns: list[list[float]]) -> float:
    """Return the standard error of typical(), by drawing turns again and again."""
    draw = random.Random(0)  # not the program's generator: that would be use of it
    return stdev(typical(draw.choices(turns, k=len(turns))) for _ in range(200))


def copy() -> None:
    """Copy the batches of K steps."""
    for _ in range(K):
        x.clone()


spent = 0
is_armed = True
inner = Box.quietly


def timed(self: Box, *args: object) -> None:
    """Add up the time of everything that the box does; do nothing if it is not armed."""
    global spent
    if not is_armed:
        return
    start = time.thread_time_ns()
    inner(self, *args)
    spent += time.thread_time_ns() - start


Box.quietly = timed
ratios, differences, on_the_wall = [], [], []
with (
    tempfile.TemporaryDirectory() as folder,
    record(f"{folder}/run", model=model, black_box=2 * K) as run,
):
    box = run.box
    assert box is not None
    assert isinstance(box.role, Writer)
    for _ in range(3):
        pairs()  # both snapshots have their memory
    for turn in range(1, MOST + 1):
        spent = 0
        cpu, wall = pairs()
        copied = harness.seconds(copy)
        ratios.append((spent / 1e9 - copied) / sum(cpu[False]))
        differences.append(excess(cpu, copied))
        on_the_wall.append(excess(wall, copied))
        if turn >= LEAST and turn % 10 == 0 and error(differences) <= ENOUGH:
            break
    state = sum(t.numel() * t.element_size() for t in model.parameters()) * 3
    kept = [memory for step in box.steps for memory in step.memories()] + box.free
    held = sum(kept.memory.size for _, kept in box.role.snapshots) + sum(
        memory.size for memory in kept
    )
    allowed = 2 * state + 2 * K * x.numel() * x.element_size()

harness.row(
    "armed, snapshots every 8 steps included, of the step without its batch's copy",
    median(ratios) * 100,
    1,
    unit="%",
    at_most=True,
)
harness.row(
    "... the same as a difference of processor times: armed steps and others in turn",
    typical(differences) * 100,
    1,
    unit="%",
    at_most=True,
)
harness.row("... the standard error of that difference", error(differences) * 100, None, unit="%")
harness.row("... that difference on the wall", typical(on_the_wall) * 100, None, unit="%")
harness.row(
    "... the standard error of that difference on the wall",
    error(on_the_wall) * 100,
    None,
    unit="%",
)
harness.row("... pairs of steps that it took", len(differences) * K, None)
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
