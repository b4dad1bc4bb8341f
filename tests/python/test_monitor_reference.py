"""What a model gives beside what its reference gives."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from monitored import change, close, pair  # noqa: E402
from torch import nn  # noqa: E402

from tensortap.monitor import ModuleMonitor  # noqa: E402


def test_a_reference_needs_a_module_first() -> None:
    with pytest.raises(ValueError, match="set_module"):
        ModuleMonitor().set_reference_module(nn.Linear(1, 1))


def test_a_reference_of_other_names_is_refused_and_the_earlier_one_stays() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    monitor, reference = pair(model)
    monitor.add_activation_difference_metric("l2", lambda a, b: (a - b).norm())
    with pytest.raises(ValueError, match=r"same names.*other"):
        monitor.set_reference_module(nn.ModuleDict({"other": nn.Linear(2, 2)}))
    assert monitor.reference_module is reference
    monitor.begin_step(0)
    reference(torch.ones(1, 2))
    model(torch.ones(1, 2))
    assert monitor.get_step_metrics()["activation_difference/0/l2"] == 0


def test_a_reference_is_replaced_and_removed() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    monitor, first = pair(model)
    second = copy.deepcopy(model)
    change(second)
    monitor.set_reference_module(second)
    assert monitor.reference_module is second
    assert "_compiled_call_impl" not in first[0].__dict__
    assert monitor.reference_module_names[second[0]] == "0"
    monitor.remove_reference_module()
    assert not monitor.has_reference_module()
    monitor.set_reference_module(second)
    monitor.set_reference_module(None)
    assert monitor.reference_module is None
    assert monitor.reference_module_names == {}
    monitor.remove_reference_module()


def test_the_reference_stores_inside_of_no_monitor() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    monitor, reference = pair(model)
    monitor.add_activation_difference_metric("l2", lambda a, b: (a - b).norm())
    monitor.add_activation_metric("mean")
    change(model)
    x = torch.randn(4, 3)
    monitor.begin_step(0)
    with monitor.no_monitor():
        expected = reference(x)
        model(x * 100)
        assert not monitor.is_monitoring()
    assert torch.equal(monitor.reference_module_activations["1"], expected)
    y = model(x)
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert close(found["activation_difference/1/l2"], float((y - expected).norm().detach()))
    assert close(found["activation/1/mean"], float(y.mean().detach()))
    assert monitor.reference_module_activations == {}


def test_without_a_forward_pass_of_the_reference_there_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    monitor, _ = pair(model)
    monitor.add_activation_difference_metric("l2", lambda a, b: (a - b).norm(), "0")
    monitor.begin_step(0)
    model(torch.ones(1, 3))
    monitor.end_step()
    assert monitor.get_step_metrics() == {}
    assert any("module" in text or "0" in text for text in caplog.messages)


def test_after_micro_batch_drops_what_the_reference_gave() -> None:
    model = nn.Linear(2, 2)
    monitor, reference = pair(model)
    monitor.add_activation_difference_metric("max", lambda a, b: (a - b).abs().max())
    change(model)
    monitor.begin_step(0)
    expected = []
    for _ in range(3):
        x = torch.randn(2, 2)
        y0 = reference(x)
        kept = weakref.ref(monitor.reference_module_activations["[root module]"])
        expected.append(float((model(x) - y0).abs().max().detach()))
        monitor.after_micro_batch()
        assert monitor.reference_module_activations == {}
        gc.collect()
        assert kept() is None
    monitor.end_step()
    found = monitor.get_step_metrics()["activation_difference/[root module]/max"]
    assert close(found, sum(expected) / 3)


def test_the_kth_call_of_a_module_is_compared_with_the_references_kth() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.fc(self.fc(x))

    model = Twice()
    monitor, reference = pair(model)
    monitor.add_activation_difference_metric("max", lambda a, b: (a - b).abs().max(), "fc")
    change(model)
    x = torch.randn(2, 3)
    monitor.begin_step(0)
    reference(x)
    model(x)
    monitor.end_step()
    with torch.no_grad():
        a, b = model.fc(x), reference.fc(x)
        exact = ((a - b).abs().max() + (model.fc(a) - reference.fc(b)).abs().max()) / 2
    assert close(monitor.get_step_metrics()["activation_difference/fc/max"], float(exact))


def test_named_difference_metrics_are_of_what_lies_between() -> None:
    model = nn.Linear(3, 3)
    monitor, reference = pair(model)
    change(model)
    for name in ("norm", "absmax", "mean"):
        monitor.add_activation_difference_metric(name)
        monitor.add_parameter_difference_metric(name)
    x = torch.randn(2, 3)
    monitor.begin_step(0)
    y0, y = reference(x), model(x)
    monitor.monitor_parameters()
    monitor.end_step()
    found = monitor.get_step_metrics()
    between = (y - y0).detach()
    assert close(found["activation_difference/[root module]/norm"], float(between.norm()))
    assert close(found["activation_difference/[root module]/mean"], float(between.mean()))
    weights = (model.weight - reference.weight).detach()
    assert close(found["parameter_difference/weight/absmax"], float(weights.abs().max()))


def test_what_the_reference_gave_is_kept_as_it_was() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.act = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            return self.act(self.fc(x))

    model = Late()
    monitor, reference = pair(model)
    monitor.begin_step(0)
    x = torch.randn(4, 3)
    reference(x)
    held = monitor.reference_module_activations
    assert torch.equal(held["fc"], model.fc(x))
    assert (held["fc"] < 0).any()
    assert torch.equal(held["act"], model.fc(x).relu())
