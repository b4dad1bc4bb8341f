"""Stages of a pipeline, on two real ranks: what is recorded is what the program trains with."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402

import tensortap as tt  # noqa: E402

pytest.importorskip("torch.distributed.pipelining")

MICRO_BATCHES, STEPS = 4, 12


def stage(number: int) -> torch.nn.Module:
    """Return a stage whose layers have the same names on every rank."""
    torch.manual_seed(number)
    last = torch.nn.Linear(16, 5) if number == 1 else torch.nn.Linear(16, 16)
    first = torch.nn.Linear(8, 16) if number == 0 else torch.nn.Linear(16, 16)
    return torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.LayerNorm(16), last)


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
    return x, (x.sum(-1) > 0).long()


def train_whole() -> list[float]:
    """Return the norm of the gradients at each step of the same training in one process."""
    models = [stage(0), stage(1)]
    parameters = [p for model in models for p in model.parameters()]
    optimizer = torch.optim.SGD(parameters, 0.1)
    norms = []
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(models[1](models[0](x)), y).backward()
        norms.append(math.hypot(*(float(p.grad.norm()) for p in parameters)))
        optimizer.step()
    return norms


def train_stage(rank: int, world: int, folder: str, schedule: str, clip: float | None) -> None:
    from torch.distributed import pipelining

    # Memory that is not initialised holds anything: so that it does, whatever is free is NaN.
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    model: Any = stage(rank)
    part = pipelining.PipelineStage(model, rank, world, torch.device("cpu"))
    loss = torch.nn.functional.cross_entropy
    run_step = getattr(pipelining, schedule)(part, MICRO_BATCHES, loss_fn=loss)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(folder, model=model, inputs=True, on_nonfinite="raise"):
        for step in range(STEPS):
            x, y = batch(step)
            optimizer.zero_grad()
            run_step.step(x) if rank == 0 else run_step.step(target=y)
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()


@pytest.mark.parametrize("schedule", ["ScheduleGPipe", "Schedule1F1B"])
def test_a_healthy_pipeline_is_recorded_as_it_trains(tmp_path: Path, schedule: str) -> None:
    said(run_ranks(2, train_stage, str(tmp_path / "run"), schedule, None))
    run = tt.open(tmp_path / "run")
    assert [str(one) for one in tt.health(run)] == []
    for rank in range(2):  # no call that only found the shapes
        steps = run.series("activation/0", "nan", rank=rank)[0].tolist()
        assert steps == [step for step in range(STEPS) for _ in range(MICRO_BATCHES)]
    parts = [run.series("gradient_norm", rank=rank)[1] for rank in range(2)]
    assert run.names("gradient_norm*") == ["gradient_norm"]
    for ours, whole in zip(zip(*parts, strict=True), train_whole(), strict=True):
        assert math.hypot(*ours) == pytest.approx(whole, rel=1e-4)
    (loss,) = run.names("loss/*")
    assert [len(run.series(loss, rank=rank)[0]) > 0 for rank in range(2)] == [False, True]


def test_gradients_of_a_stage_that_were_clipped_are_named_so(tmp_path: Path) -> None:
    said(run_ranks(2, train_stage, str(tmp_path / "run"), "ScheduleGPipe", 0.01))
    run = tt.open(tmp_path / "run")
    assert run.names("gradient_norm*") == ["gradient_norm (clipped)"]
