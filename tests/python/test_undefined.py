"""A statistic that no element defines is no NaN: nothing says "not finite" of it."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from commands import answer, tensortap  # noqa: E402
from torch import nn  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.monitor import ModuleMonitor  # noqa: E402
from tensortap.spy.run_graph import ALARM, run_graph  # noqa: E402


class Scalar(nn.Module):
    """Return one element, whose standard deviation is undefined."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.loss = nn.MSELoss()
        self.nothing = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.nothing(x[:0])
        return self.loss(self.fc(x), x)


@pytest.fixture(scope="module")
def finite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record one-element and empty tensors, and metrics of them."""
    folder = tmp_path_factory.mktemp("undefined")
    model = Scalar()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor = ModuleMonitor(monitor_step_fn=lambda step: True)
    monitor.set_module(model)
    for name in ("std", "var", "mean", "min", "hist"):
        monitor.add_activation_metric(name)
        monitor.add_gradient_metric(name)
    monitor.set_reference_module(Scalar())
    monitor.add_activation_difference_metric("std")
    with tt.record(folder / "run", model=model, optimizer=optimizer):
        for step in range(3):
            monitor.begin_step(step)
            x = torch.ones(2, 4)
            with torch.no_grad():
                monitor.reference_module(x)
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
            monitor.end_step()
    metrics = monitor.get_all_metrics()[2]
    assert metrics["activation/loss/std"] != metrics["activation/loss/std"]  # as torch.std
    return folder / "run"


def test_an_undefined_metric_is_not_where_a_nan_was_born(finite: Path) -> None:
    done = tensortap("nan", finite, folder=finite.parent)
    assert done.returncode == 0, done.stdout
    assert tt.open(finite).first_nonfinite is None


def test_a_metric_of_a_tensor_that_held_nan_is_still_found(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    monitor = ModuleMonitor(monitor_step_fn=lambda step: True)
    monitor.set_module(model)
    monitor.add_activation_metric("std")
    with tt.record(tmp_path / "run"):
        monitor.begin_step(0)
        model(torch.tensor([[float("nan"), 0.0]]))
        monitor.end_step()
    first = tt.open(tmp_path / "run").first_nonfinite
    assert first is not None
    assert first.name.endswith("/std")


def test_show_and_top_find_nothing_odd_about_undefined_statistics(finite: Path) -> None:
    shown = tensortap("show", finite, "activation/*", folder=finite.parent, COLUMNS="120").stdout
    rows = [line for line in shown.splitlines() if "nothing" in line or "loss" in line]
    assert len(rows) >= 2
    assert not any(word in row for row in rows for word in ("!", "nan", "not finite")), shown
    assert "not finite" not in tensortap("top", finite, "--once", folder=finite.parent).stdout
    changes = {
        site["site"]: site["change"]
        for site in answer("top", finite, folder=finite.parent)["sites"]
    }
    assert "NaN" not in changes.values()


def test_a_graph_coloured_by_an_undefined_statistic_raises_no_alarm(finite: Path) -> None:
    with tt.open(finite) as run:
        for color in ("std", "mean", "rms"):
            source = run_graph(run, color).source
            assert ALARM not in source
            assert "nan" not in source
