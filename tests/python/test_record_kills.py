"""kill -9 at any moment: the run opens, is whole, and lacks half a second at most."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from programs import said_first, started

import tensortap as tt

KILLS = int(os.environ.get("TT_KILLS", "8"))  # ./dev test --all: 200

# `last` outlives the program: when it recorded for the last time, by its own clock.
NUMPY_WRITER = """
import sys, time, numpy as np, tensortap as tt
run = tt.record(sys.argv[1])
x = np.random.default_rng(0).random(20_000)
last = np.memmap(sys.argv[1] + "/last", dtype="f8", mode="w+", shape=1)
print("begun", flush=True)
while True:
    now = time.time()
    run.log("time", now)
    run.log("step", run.current_step)
    if run.current_step % 50 == 0:
        x[0] = run.current_step
        run.tensor("x", x, keep="stats|value")
    last[0] = now
    run.step()
    if run.current_step % 64 == 0:
        time.sleep(0.002)
"""

TORCH_WRITER = """
import sys, time, numpy as np, torch, tensortap as tt
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(20)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
run = tt.record(sys.argv[1], model=model, optimizer=optimizer)
last = np.memmap(sys.argv[1] + "/last", dtype="f8", mode="w+", shape=1)
print("begun", flush=True)
while True:
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    now = time.time()
    run.log("time", now)
    run.log("step", run.current_step)
    last[0] = now
"""


def killed_after(writer: str, folder: Path, seconds: float) -> tuple[tt.Run, float]:
    """Kill a writer; give its run and the moment up to which it should be there."""
    with started(writer, folder.parent, folder.name) as process:
        said_first(process)
        time.sleep(seconds)
        waited = seconds_waited(process.pid)
        process.kill()
        process.wait()
    last = float(np.fromfile(folder / "last")[0])
    return tt.open(folder), last - waited


def seconds_waited(pid: int) -> float:
    """Tell how long the writer was ready to run and had no processor: not its doing."""
    waited = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid):
            waited += int((task / "schedstat").read_text().split()[1])
    return waited / 1e9


def lost_seconds(run: tt.Run, last: float) -> float | None:
    """Check that a killed run is whole; give what it lacks, None if it had no time to begin."""
    assert run.state == "crashed"
    assert run.check(), run.check()
    if "step" not in run or "time" not in run:
        return None  # killed before its first block was due
    times, (steps, values) = run.series("time")[1], run.series("step")
    assert steps.tolist() == list(range(len(steps)))  # no half step, none missing
    assert values.tolist() == steps.tolist()
    return last - float(times[-1])


def test_kill_9_at_random_moments_loses_at_most_half_a_second(tmp_path: Path) -> None:
    moments, lost = random.Random(0), []
    for turn in range(KILLS):
        folder = tmp_path / f"run{turn}"
        run, last = killed_after(NUMPY_WRITER, folder, moments.uniform(0.0, 1.0))
        lost.append(lost_seconds(run, last))
        if "x" in run:
            for step in run.series("x", "max")[0]:
                assert run.tensor("x", int(step), as_numpy=True)[0] == step
        run.close()
        shutil.rmtree(folder)
    known = [seconds for seconds in lost if seconds is not None]
    print(f"{KILLS} kills, {len(known)} with events; lost at most {max(known):.3f} s")
    assert len(known) > KILLS // 3
    assert max(known) <= 0.5


def test_kill_9_while_torch_trains_loses_at_most_half_a_second(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for turn, seconds in enumerate((0.6, 0.9, 1.3)):
        run, last = killed_after(TORCH_WRITER, tmp_path / f"run{turn}", seconds)
        lost = lost_seconds(run, last)
        assert lost is not None
        assert lost <= 0.5
        # All that a step consists of is there, up to the last one written.
        steps = len(run.series("step")[0])
        for name in ("activation/(root)", "parameter/0.weight", "gradient/19.bias"):
            assert run.series(name, "mean")[0][: steps - 1].tolist() == list(range(steps - 1))


def test_a_killed_run_can_be_resumed(tmp_path: Path) -> None:
    killed, _ = killed_after(NUMPY_WRITER, tmp_path / "run", 0.8)
    before = len(killed.series("step")[0])
    with tt.record(tmp_path / "run", resume=True) as run:
        run.log("step", run.current_step)
    steps, values = tt.open(tmp_path / "run").series("step")
    assert len(steps) == before + 1
    assert steps.tolist() == values.tolist() == list(range(before + 1))
