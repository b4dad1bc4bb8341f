"""Gradients before and after clipping; and metrics in a run."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from monitored import close, every, halves, ones  # noqa: E402
from torch import nn  # noqa: E402

import tensortap as tt  # noqa: E402

ROOT = "activation/[root module]"


def test_a_parameter_without_a_gradient_is_a_warning_and_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    monitor = every(model)
    monitor.add_gradient_metric("norm")
    monitor.add_gradient_metric("own", lambda g: g.norm())
    monitor.begin_step(0)
    model(torch.ones(1, 2)).sum().backward()
    monitor.monitor_gradients()
    monitor.end_step()
    assert monitor.get_step_metrics().keys() == {
        f"gradient/1.{part}/{name}" for part in ("weight", "bias") for name in ("norm", "own")
    }
    assert [text for text in caplog.messages if "0.weight" in text]
    assert [text for text in caplog.messages if "0.bias" in text]


def test_gradients_without_any_metric_or_with_a_regex_are_fine() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    monitor = every(model)
    monitor.begin_step(0)
    model(torch.ones(1, 2)).sum().backward()
    monitor.monitor_gradients()
    monitor.add_gradient_metric("norm", lambda g: g.norm(), r"1\.w")
    monitor.monitor_gradients()
    monitor.end_step()
    assert monitor.get_step_metrics().keys() == {"gradient/1.weight/norm"}


def test_gradients_before_clipping_have_keys_of_their_own() -> None:
    model = nn.Linear(3, 3)
    monitor = every(model)
    monitor.add_gradient_metric("norm")
    monitor.add_gradient_metric("own", lambda g: g.norm())
    monitor.begin_step(0)
    (100 * model(torch.ones(1, 3)).sum()).backward()
    before = float(model.weight.grad.norm())
    monitor.monitor_gradients(before_clip=True)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    monitor.monitor_gradients()
    monitor.end_step()
    found = monitor.get_step_metrics()
    for name in ("norm", "own"):
        assert close(found[f"gradient_before_clip/weight/{name}"], before)
        assert close(found[f"gradient/weight/{name}"], float(model.weight.grad.norm()))


# ---- a run


def test_with_a_run_open_the_metrics_go_there_too(tmp_path: Path) -> None:
    model, monitor = halves()
    with tt.record(tmp_path / "run"):
        for step in (0, 20, 40):
            monitor.begin_step(step)
            model(ones(step))
            monitor.log_scalar("loss", step / 10)
            monitor.end_step()
    run = tt.open(tmp_path / "run")
    steps, values = run.series(f"{ROOT}/mean")
    assert list(steps) == [0, 20, 40]
    assert list(values) == [0, 10, 20]
    assert list(run.series("loss")[1]) == [0, 2, 4]


def test_in_a_run_that_watches_the_model_both_are_of_the_same_step(tmp_path: Path) -> None:
    model, monitor = halves()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.record(tmp_path / "run", model=model, optimizer=optimizer):
        for step in range(4):
            monitor.begin_step(step)
            model(ones(step + 1)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.end_step()
    run = tt.open(tmp_path / "run")
    steps, values = run.series(f"{ROOT}/mean")
    assert list(steps) == [0, 1, 2, 3]
    other_steps, means = run.series("activation/(root)", "mean")
    assert list(other_steps) == [0, 1, 2, 3]
    assert all(close(a, b) for a, b in zip(values, means, strict=True))
