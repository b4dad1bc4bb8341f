"""kill -9 at any moment: the run opens, is whole, and lacks half a second at most."""

from __future__ import annotations

import functools
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from programs import said_first, started, wait_for

import tensortap as tt

KILLS = int(os.environ.get("TT_KILLS", "8"))  # ./dev test --all: 200

# `clock` outlives the program: when it began, when it recorded for the last time, and
# how long in all it stood still, by its own clock.
CLOCK = """
import sys, time, numpy as np, tensortap as tt
def begin():
    global clock
    clock = np.memmap(sys.argv[1] + "/clock", dtype="f8", mode="w+", shape=3)
    clock[:2] = time.time()
    print("begun", flush=True)
def tick(now):
    gap = now - clock[1]
    clock[1] = now
    if gap > 0.1:
        clock[2] += gap
"""

NUMPY_WRITER = (
    CLOCK
    + """
run = tt.record(sys.argv[1])
x = np.random.default_rng(0).random(20_000)
begin()
while True:
    now = time.time()
    run.log("time", now)
    run.log("step", run.current_step)
    if run.current_step % 500 == 0:  # rarely: only the clock shall make the writer write
        x[0] = run.current_step
        run.tensor("x", x, keep="stats|value")
    tick(now)
    run.step()
    if run.current_step % 8 == 0:
        time.sleep(0.002)
"""
)

TORCH_WRITER = (
    CLOCK
    + """
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(20)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
run = tt.record(sys.argv[1], model=model, optimizer=optimizer)
begin()
while True:
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    now = time.time()
    run.log("time", now)
    run.log("step", run.current_step)
    tick(now)
"""
)


TRIES = 8  # a machine that stands still, or a slow disk: not the writer's doing


def killed(writer: str, folder: Path, wait: Callable[[], object]) -> tuple[tt.Run, float]:
    """Kill a writer after *wait*; give its run, whole, and how many seconds of it are lost."""
    with started(writer, folder.parent, folder.name) as process:
        said_first(process)
        wait()
        waited = seconds_waited(process.pid)
        process.kill()
        process.wait()
    begun, last, stood_still = np.fromfile(folder / "clock")
    run = tt.open(folder)
    assert run.state == "crashed"
    assert run.check(), run.check()
    if "step" not in run or "time" not in run:
        return run, last - begun - waited - stood_still
    times, (steps, values) = run.series("time")[1], run.series("step")
    assert steps.tolist() == list(range(len(steps)))  # no half step, none missing
    assert values.tolist() == steps.tolist()
    print(f"lost {last - times[-1]:.3f} s, waited {waited:.3f}, stood still {stood_still:.3f}")
    return run, last - float(times[-1]) - waited - stood_still


def seconds_waited(pid: int) -> float:
    """Tell how long the writer was ready to run and had no processor: not its doing."""
    waited = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid) and (task / "schedstat").exists():
            waited += int((task / "schedstat").read_text().split()[1])
    return waited / 1e9


def killed_after(writer: str, folder: Path, seconds: float) -> tuple[tt.Run, float]:
    """Kill a writer at this moment of its life; again if the machine made it lose too much.

    A writer that writes too seldom loses too much each time: it is killed at the same moment.
    """
    for turn in range(TRIES):
        run, lost = killed(writer, folder, lambda: time.sleep(seconds))
        if lost <= 0.5 or turn == TRIES - 1:
            return run, lost
        run.close()
        shutil.rmtree(folder)
    raise AssertionError("TRIES is 0")


def test_kill_9_at_random_moments_loses_at_most_half_a_second(tmp_path: Path) -> None:
    moments, with_events = random.Random(0), 0
    for turn in range(KILLS):
        folder = tmp_path / f"run{turn}"
        run, lost = killed_after(NUMPY_WRITER, folder, moments.uniform(turn, turn + 1) / KILLS)
        assert lost <= 0.5
        with_events += "step" in run
        if "x" in run:
            for step in run.series("x", "max")[0]:
                assert run.tensor("x", int(step), as_numpy=True)[0] == step
        run.close()
        shutil.rmtree(folder)
    assert with_events > 0


def test_kill_9_while_torch_trains_loses_at_most_half_a_second(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for turn, seconds in enumerate((0.6, 1.2)):
        run, lost = killed_after(TORCH_WRITER, tmp_path / f"run{turn}", seconds)
        assert lost <= 0.5
        # All that a step consists of is there, up to the last one written.
        steps = len(run.series("step")[0]) if "step" in run else 1
        for name in ("activation/(root)", "parameter/0.weight", "gradient/19.bias"):
            found = run.series(name, "mean")[0].tolist() if steps > 1 else []
            assert found[: steps - 1] == list(range(steps - 1))


def test_a_killed_run_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    has_begun = functools.partial(wait_for, lambda: "step" in tt.open(folder), "a step in the file")
    before = len(killed(NUMPY_WRITER, folder, has_begun)[0].series("step")[0])
    with tt.record(folder, resume=True) as run:
        run.log("step", run.current_step)
    steps, values = tt.open(folder).series("step")
    assert len(steps) == before + 1
    assert steps.tolist() == values.tolist() == list(range(before + 1))
