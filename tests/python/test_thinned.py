"""A run that lasts for weeks stays within its disk, and has every step that matters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from commands import tensortap

import tensortap as tt

DISK = 3_000_000
STEPS = 12_000
SITES = 8
BAD, SPIKE = 9_003, 10_005
BEFORE = 100


def tensor(site: int, step: int) -> np.ndarray:
    values = np.random.default_rng(step * SITES + site).standard_normal(16)
    if site == 3 and step == BAD:
        values[5] = np.nan
    return values


def train(run: tt.Recording, steps: range) -> None:
    for step in steps:
        for site in range(SITES):
            run.tensor(f"gradient/{site}", tensor(site, step))
        run.log("loss", 40.0 if step == SPIKE else 2 + 0.1 * np.sin(step))
        run.step()
        if step % 64 == 0:
            run.flush()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("thinned")
    for name, disk in (("long", DISK), ("full", None)):
        with tt.record(folder / name, disk=disk) as run:
            train(run, range(STEPS))
    return {name: folder / name for name in ("long", "full")}


def test_a_long_run_stays_within_its_disk(runs: dict[str, Path]) -> None:
    size = (runs["long"] / "rank0.tap").stat().st_size
    assert size <= DISK < (runs["full"] / "rank0.tap").stat().st_size


def test_steps_around_a_nan_a_spike_and_the_end_are_all_there(runs: dict[str, Path]) -> None:
    steps, means = tt.open(runs["long"]).series("gradient/3", "mean")
    assert len(steps) < STEPS / 2
    assert list(steps) == sorted(set(steps))
    for end in (BAD, SPIKE, STEPS - 1):
        assert set(range(end - BEFORE, end + 1)) <= set(steps.tolist())
    for step, mean in list(zip(steps.tolist(), means.tolist(), strict=True))[::37]:
        assert mean == pytest.approx(np.nanmean(tensor(3, step)), rel=1e-12)


def test_numbers_of_the_program_are_thinned_last(runs: dict[str, Path]) -> None:
    run = tt.open(runs["long"])
    losses = len(run.series("loss")[0])
    assert losses == STEPS
    assert losses > 2 * len(run.series("gradient/0", "mean")[0])


def test_what_a_whole_run_would_take_is_foretold(runs: dict[str, Path]) -> None:
    note = next(
        note.text for note in tt.open(runs["long"]).notes if note.text.startswith("thinned")
    )
    told = float(note.split("would take about ")[1].split()[0]) * 1e9 / 100_000
    took = (runs["full"] / "rank0.tap").stat().st_size / STEPS
    assert told == pytest.approx(took, rel=0.2)


def test_a_run_says_that_it_is_thinned(runs: dict[str, Path]) -> None:
    run = tt.open(runs["long"])
    first, stride = run.strides[0]
    assert stride in (2**k for k in range(1, 20))
    assert sum(note.text.startswith("thinned: ") for note in run.notes) == 1
    shown = tensortap("show", "long", folder=runs["long"].parent).stdout
    assert f"thinned: every {stride}" in shown
    assert f"step {first} on" in shown
    assert tt.open(runs["full"]).strides == []
    assert "thinned:" not in tensortap("show", "full", folder=runs["full"].parent).stdout


def test_nan_names_the_same_point_in_both(runs: dict[str, Path]) -> None:
    for path in runs.values():
        first = tt.open(path).first_nonfinite
        assert first is not None
        assert (first.name, first.step) == ("gradient/3", BAD)


def test_diff_compares_the_steps_that_both_have(runs: dict[str, Path]) -> None:
    answer = tensortap("diff", "long", "full", folder=runs["long"].parent)
    assert answer.returncode == 0, answer.stdout
    assert "identical" in answer.stdout
    assert "only in" not in answer.stdout
    run, full = (tt.open(runs[name]) for name in ("long", "full"))
    both = sum(len(run.series(name)[0]) for name in run.names())
    missing = sum(len(full.series(name)[0]) for name in full.names()) - both
    grouped = f"{missing:,}".replace(",", " ")
    assert f"{grouped} more are of steps that only one of the runs has" in answer.stdout


def test_a_run_that_goes_on_is_as_thin(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", disk=DISK) as run:
        train(run, range(8000))
    before = tt.open(tmp_path / "run").strides[-1][1]
    assert before > 1
    with tt.record(tmp_path / "run", disk=DISK, resume=True) as run:
        train(run, range(8000, 9000))
    steps = tt.open(tmp_path / "run").series("gradient/0", "mean")[0]
    assert sum(8100 <= step < 8700 for step in steps) <= 600 / before + 1
    assert (tmp_path / "run" / "rank0.tap").stat().st_size <= DISK


def train_batches(folder: Path, batches: int, rate: float) -> tt.Run:
    """Train long enough to be thinned, on so many batches in turn."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(8, 8), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    data = torch.randn(batches, 4, 8)
    with tt.record(folder, model=model, disk=1_000_000):
        for step in range(1200):
            batch = data[step % batches]
            loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    run = tt.open(folder)
    assert run.strides[-1][1] > 1
    return run


def test_a_batch_of_the_next_epoch_is_not_the_same_batch_again(tmp_path: Path) -> None:
    """Every 8th of 8 batches is the same one."""
    train_batches(tmp_path / "run", batches=8, rate=0.01)
    assert not tt.health(tmp_path / "run").items


def test_a_fault_is_named_in_a_thinned_run_with_the_steps_it_had(tmp_path: Path) -> None:
    run = train_batches(tmp_path / "run", batches=64, rate=0.0)
    found = {one.rule: one for one in tt.health(tmp_path / "run")}
    one = found["learning-rate"]
    assert (one.first_step, one.last_step) == (run.steps[0], run.steps[-1])


CODE = """
import sys, itertools, numpy as np, tensortap as tt
run = tt.record(sys.argv[1], disk=1_000_000)
for step in itertools.count():
    for site in range(8):
        run.tensor(f"gradient/{site}", np.random.default_rng(step * 8 + site).standard_normal(16))
    run.log("loss", 2.0 if step % 997 else 50.0)
    run.step()
    if step == 3000:
        print("ready", flush=True)
"""


@pytest.mark.parametrize("delay", [0.05, 0.4, 0.9])
def test_a_kill_costs_nothing_that_was_written(tmp_path: Path, delay: float) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", CODE, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    time.sleep(delay)
    written = tt.open(tmp_path / "run").series("gradient/0", "mean")[0]
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    run = tt.open(tmp_path / "run")
    steps, means = run.series("gradient/0", "mean")
    written_steps = set(steps.tolist())
    assert set(written.tolist()) <= written_steps
    assert list(steps) == sorted(set(steps))
    assert run.check()
    strides = run.strides
    assert strides[-1][1] > strides[0][1] > 1
    for step in range(steps[-1]):
        stride = next((stride for first, stride in reversed(strides) if first <= step), 1)
        assert step % stride != 0 or step in written_steps
    for step, mean in list(zip(steps.tolist(), means.tolist(), strict=True))[::29]:
        values = np.random.default_rng(step * 8).standard_normal(16)
        assert mean == pytest.approx(values.mean(), rel=1e-12)


@pytest.mark.parametrize("disk", ["2 gigabytes", "", "-1GB", "10", 5, True, 1.5])
def test_a_size_that_is_none_is_refused(tmp_path: Path, disk: object) -> None:
    with pytest.raises((TypeError, ValueError), match="disk must be bytes from 1000000 on"):
        tt.record(tmp_path / "run", disk=disk)  # type: ignore[arg-type]


@pytest.mark.parametrize("disk", ["0", "-1", "10", "1e9", "inf", "500MiB", "2 gigabytes"])
def test_the_command_refuses_the_same_sizes(tmp_path: Path, disk: str) -> None:
    answer = tensortap("run", "--disk", disk, "program.py", folder=tmp_path)
    assert answer.returncode == 2
    assert f"or none, not '{disk}'" in answer.stderr
