"""watch, monitor and functions on the same modules: one look at each output for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap import _core  # noqa: E402
from tensortap.monitor import ModuleMonitor  # noqa: E402


class Two(nn.Module):
    """Returns tensors in a tuple and a dict."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return x + 1, {"half": x / 2, "same": x}


def monitor_of(model: nn.Module) -> ModuleMonitor:
    monitor = ModuleMonitor(monitor_step_fn=lambda step: True)
    monitor.set_module(model)
    for name in ("mean", "max"):
        monitor.add_activation_metric(name)
    return monitor


@pytest.mark.parametrize("monitor_first", [False, True])
def test_watch_and_monitor_agree_on_every_output(tmp_path: Path, monitor_first: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), Two())
    with tt.record(tmp_path / "run") as run:
        monitor = monitor_of(model) if monitor_first else None
        tt.watch(model)
        monitor = monitor or monitor_of(model)
        monitor.begin_step(0)
        kept = model(torch.randn(4, 8))
        monitor.end_step()
        metrics = monitor.get_step_metrics()
        monitor.close()
    read = tt.open(run.path)
    expected = {"2.0": kept[0], "2.1.half": kept[1]["half"], "2.1.same": kept[1]["same"]}
    for name, tensor in expected.items():
        (stats,) = read.stats(f"activation/{name}")
        assert stats.max == tensor.max().item() == metrics[f"activation/{name}/max"]
        assert stats.mean == metrics[f"activation/{name}/mean"]
        assert stats.mean == pytest.approx(tensor.double().mean().item())


def test_a_consumer_sees_what_a_function_before_it_changed(tmp_path: Path) -> None:
    model = nn.Linear(8, 8)
    monitor = monitor_of(model)

    def change(event: _core.ModuleEvent) -> None:
        with torch.no_grad():
            event.output.fill_(7.0)

    consumer = _core.ModuleConsumer(None, change)
    consumer.add(model, "model")
    with tt.record(tmp_path / "run") as run:
        tt.watch(model)
        monitor.begin_step(0)
        model(torch.ones(2, 8))
        monitor.end_step()
    consumer.remove()
    assert monitor.get_step_metrics()["activation/[root module]/max"] != 7.0  # it came before
    (stats,) = tt.open(run.path).stats("activation/(root)")
    assert stats.min == stats.max == 7.0


def test_an_output_whose_memory_a_function_freed_is_not_read(tmp_path: Path) -> None:
    model = nn.Linear(8, 8)
    monitor = monitor_of(model)

    def free(event: _core.ModuleEvent) -> None:
        event.output.untyped_storage().resize_(0)

    consumer = _core.ModuleConsumer(None, free)
    consumer.add(model, "model")
    with tt.record(tmp_path / "run") as run:
        tt.watch(model)
        monitor.begin_step(0)
        with torch.no_grad():
            model(torch.ones(2, 8))
        monitor.end_step()
    consumer.remove()
    assert "activation/[root module]/max" in monitor.get_step_metrics()
    assert "activation/(root)" not in tt.open(run.path).names()
