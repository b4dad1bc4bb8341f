"""Gradients are recorded as backward left them; where that is not known, the name says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import forked
from recorded import batch, mlp

import tensortap as tt

torch = pytest.importorskip("torch")
from ranks import run_ranks, said  # noqa: E402

NORM, CLIPPED = "gradient_norm", "gradient_norm (clipped)"


def norm(model: torch.nn.Module) -> float:
    return float(torch.cat([p.grad.flatten() for p in model.parameters()]).norm())


def train(
    folder: Path, clip: Callable[[torch.nn.Module, int], None], parts: int = 1, **options: Any
) -> tuple[tt.Run, list[float], list[float]]:
    """Train four steps; give the run, and the norms and first gradients before clipping."""
    model, norms, firsts = mlp(), [], []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(folder, model=model, **options):
        for step in range(4):
            optimizer.zero_grad()
            for part in range(parts):
                model(batch(step * parts + part)).square().sum().backward()
            norms.append(norm(model))
            firsts.append(float(model[0].weight.grad.norm()))
            clip(model, step)
            optimizer.step()
    return tt.open(folder), norms, firsts


def close(found: Any, expected: list[float]) -> bool:
    return list(found) == [pytest.approx(one, rel=1e-5) for one in expected]


def clip_norm(model: torch.nn.Module, _: int) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)


def clip_value(model: torch.nn.Module, _: int) -> None:
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)


@pytest.mark.parametrize("clip", [clip_norm, clip_value])
@pytest.mark.parametrize("parts", [1, 3])
def test_gradients_are_recorded_as_they_were_before_clipping(
    tmp_path: Path, clip: Any, parts: int
) -> None:
    run, norms, firsts = train(tmp_path / "run", clip, parts)
    assert CLIPPED not in run.names("*")
    assert close(run.series(NORM)[1], norms)
    assert close(run.series("gradient/0.weight", "l2")[1], firsts)
    assert run.stats("gradient/0.weight", 2).shape == (8, 4)


def test_the_norm_alone_is_the_one_before_clipping_too(tmp_path: Path) -> None:
    run, norms, _ = train(tmp_path / "run", clip_norm, only=NORM, every=2)
    assert list(run.series(NORM)[0]) == [0, 2]
    assert close(run.series(NORM)[1], norms[::2])


def test_clipping_that_begins_later_is_named_once_and_measured_before_from_then_on(
    tmp_path: Path,
) -> None:
    def late(model: torch.nn.Module, step: int) -> None:
        if step >= 2:
            clip_norm(model, step)

    run, norms, _ = train(tmp_path / "run", late)
    assert [list(run.series(name)[0]) for name in (NORM, CLIPPED)] == [[0, 1, 3], [2]]
    assert close(run.series(NORM)[1], [norms[0], norms[1], norms[3]])
    assert close(run.series(CLIPPED)[1], [0.01])


def test_a_change_that_makes_gradients_bad_is_seen(tmp_path: Path) -> None:
    def spoil(model: torch.nn.Module, step: int) -> None:
        model[0].weight.grad[0, 0] = torch.nan if step == 1 else 0.0

    run, _, _ = train(tmp_path / "run", spoil)
    assert [s.nan for s in run.stats("gradient/0.weight")][:2] == [0, 1]
    assert list(run.series(CLIPPED)[0])[:1] == [1]


def test_values_that_are_kept_are_those_of_the_step_and_the_norm_says_so(tmp_path: Path) -> None:
    run, _, _ = train(tmp_path / "run", clip_norm, keep="stats,value")
    assert close(run.series(CLIPPED)[1], [0.01] * 4)
    kept = run.tensor("gradient/0.weight", 1)
    assert float(kept.norm()) == pytest.approx(run.stats("gradient/0.weight", 1).l2)


@pytest.mark.parametrize("enabled", [True, False])
def test_after_a_scaler_the_norm_is_named_clipped_and_a_scaler_that_is_off_is_none(
    tmp_path: Path, enabled: bool
) -> None:
    model, norms = mlp(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=enabled)
    with tt.record(tmp_path / "run", model=model):
        for step in range(4):
            optimizer.zero_grad()
            scaler.scale(model(batch(step)).square().sum()).backward()
            scaler.unscale_(optimizer)
            norms.append(norm(model))
            if step > 0:
                clip_norm(model, step)
            scaler.step(optimizer)
            scaler.update()
    run = tt.open(tmp_path / "run")
    if enabled:
        assert close(run.series(NORM)[1], norms[:1]), "unscaled, and not clipped"
        assert close(run.series(CLIPPED)[1], [0.01] * 3)
    else:
        steps = [*run.series(NORM)[0], *run.series(CLIPPED)[0]]
        assert sorted(steps) == [0, 1, 2, 3]
        assert close(run.series(NORM)[1], [norms[0], *norms[2:]])


DEVICE = """
import sys, torch, tensortap as tt
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with tt.record(sys.argv[1], model=model):
    for step in range(4):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
print(len(model.bias._post_accumulate_grad_hooks or ()))
"""


def test_on_a_device_the_norm_is_named_clipped(tmp_path: Path) -> None:
    done = forked(DEVICE, tmp_path, str(tmp_path / "run"), TENSORTAP_DEVICE_PATH="1")
    assert done.stdout == "0\n", done.stderr
    run = tt.open(tmp_path / "run")
    assert run.names(f"{NORM}*") == [CLIPPED] or not len(run.series(NORM)[0])
    assert close(run.series(CLIPPED)[1], [0.01] * 4)


def clip_on_a_rank(rank, world, folder, wrap):
    os.chdir(folder)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    ddp = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=rank == 0)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    norms = []
    with tt.record("run", model=model if wrap == "late" else ddp):
        for _ in range(3):
            optimizer.zero_grad()
            with ddp.no_sync():
                ddp(torch.randn(3, 4) * (rank + 1)).square().sum().backward()
            ddp(torch.randn(3, 4) * (rank + 1)).square().sum().backward()
            norms.append(float(torch.nn.utils.clip_grad_norm_(ddp.parameters(), 0.01)))
            optimizer.step()
    return norms


@pytest.mark.parametrize("wrap", ["wrapped", "late"])
def test_the_norm_of_averaged_gradients_is_the_one_that_clipping_computed(
    tmp_path: Path, wrap: str
) -> None:
    norms = said(run_ranks(2, clip_on_a_rank, str(tmp_path), wrap))
    run = tt.open(tmp_path / "run")
    assert CLIPPED not in run.names("*")
    for rank in range(2):
        assert close(run.series(NORM, rank=rank)[1], norms[rank])
