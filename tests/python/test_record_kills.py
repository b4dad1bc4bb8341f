"""kill -9 at any moment: the run opens, is whole, and lacks half a second at most.

Beyond that only the time for which the machine kept the writer's thread from running, or the
whole program: both are measured, for the lost stretch alone.
"""

from __future__ import annotations

import functools
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from programs import said_first, started, wait_for

import tensortap as tt

if TYPE_CHECKING:
    from typing import Self

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
    run.log("time", now)
    run.log("still", float(clock[2]))
    run.log("step", run.current_step)
"""

NUMPY_WRITER = (
    CLOCK
    + """
run = tt.record(sys.argv[1])
x = np.random.default_rng(0).random(20_000)
begin()
while True:
    tick(time.time())
    if run.current_step % 500 == 0:  # rarely: only the clock shall make the writer write
        x[0] = run.current_step
        run.tensor("x", x, keep="stats|value")
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
    tick(time.time())
"""
)


TRIES = 4  # a slow disk: not the writer's doing


def killed(writer: str, folder: Path, wait: Callable[[], object]) -> tuple[tt.Run, float]:
    """Kill a writer after *wait*; give its run, whole, and how many seconds of it are lost."""
    with started(writer, folder.parent, folder.name) as process:
        said_first(process)
        with Waits(process.pid) as waits:
            wait()
        process.kill()
        process.wait()
    begun, last, stood_still = np.fromfile(folder / "clock")
    run = tt.open(folder)
    assert run.state == "crashed"
    assert run.check(), run.check()
    if not {"step", "time", "still"} <= set(run.names()):
        return run, last - begun - waits.since(begun) - stood_still
    times, (steps, values) = run.series("time")[1], run.series("step")
    assert steps.tolist() == list(range(len(steps)))  # no half step, none missing
    assert values.tolist() == steps.tolist()
    written = float(times[-1])
    stood_still -= run.series("still")[1][-1]
    waited = waits.since(written)
    print(f"lost {last - written:.3f} s, waited {waited:.3f}, stood still {stood_still:.3f}")
    return run, last - written - waited - stood_still


class Waits(threading.Thread):
    """Watch how long a writer's thread is ready to run and has no processor."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.tasks = Path(f"/proc/{pid}/task")
        self.main = str(pid)
        self.seen: list[tuple[float, float]] = []
        self.is_over = threading.Event()

    def look(self) -> None:
        waited = 0
        for task in self.tasks.iterdir():
            if task.name != self.main and (task / "schedstat").exists():
                waited += int((task / "schedstat").read_text().split()[1])
        self.seen.append((time.time(), waited / 1e9))

    def run(self) -> None:
        while not self.is_over.wait(0.02):
            self.look()

    def __enter__(self) -> Self:
        self.look()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.join()
        self.look()

    def since(self, moment: float) -> float:
        """Give the seconds without a processor from this moment on."""
        before = [waited for at, waited in self.seen if at <= moment]
        return self.seen[-1][1] - (before or [self.seen[0][1]])[-1]


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


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="a disk would be measured as well")
def test_on_a_loaded_machine_a_kill_loses_no_more_than_the_writer_was_kept_waiting() -> None:
    busy = "while True: sum(range(100_000))"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory, ExitStack() as load:
        for _ in range(3 * (os.cpu_count() or 1)):
            load.enter_context(started(busy, Path(memory)))
        for turn, seconds in enumerate((0.5, 0.85, 1.1)):
            wait = functools.partial(time.sleep, seconds)
            run, lost = killed(NUMPY_WRITER, Path(memory, f"run{turn}"), wait)
            run.close()
            assert lost <= 0.5


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
    left = killed(NUMPY_WRITER, folder, has_begun)[0]
    before, last = len(left.series("step")[0]), int(left.series("time")[0][-1])
    assert last in (before - 1, before)  # what was written may end in the middle of a step
    with tt.record(folder, resume=True) as run:
        run.log("step", run.current_step)
    steps, values = tt.open(folder).series("step")
    assert steps.tolist() == values.tolist() == [*range(before), last + 1]
