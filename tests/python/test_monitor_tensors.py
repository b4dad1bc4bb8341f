"""Tensors that C cannot read, or that lie elsewhere; and what reading costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from monitored import Gives, close, every, measure  # noqa: E402
from programs import forked  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_exchange_table  # noqa: E402


def test_tensors_that_cannot_be_read_are_named_once_and_the_rest_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Gives({"meta": torch.empty(3, device="meta"), "fine": torch.ones(2)})
    monitor = every(model)
    monitor.add_activation_metric("mean")
    assert measure(monitor, model) == {"activation/[root module].fine/mean": 1}
    measure(monitor, model, 1)
    assert len([text for text in caplog.messages if "meta" in text]) == 1


def test_a_tensor_that_changes_the_metrics_while_it_is_read_is_safe(tmp_path: Path) -> None:
    done = forked(
        """
        import torch
        from tensortap.monitor import ModuleMonitor

        class Busy(torch.Tensor):
            def detach(self):  # which is how a conjugated tensor is read
                if step == 0:
                    monitor.add_activation_metric("max", lambda x: x.real.max())
                return super().detach()

        class Gives(torch.nn.Module):
            def forward(self):
                return torch.full((2,), 3j).conj().as_subclass(Busy)

        model = Gives()
        monitor = ModuleMonitor(monitor_step_fn=lambda step: True)
        monitor.set_module(model)
        monitor.add_activation_metric("numel")
        for step in range(2):
            monitor.begin_step(step)
            model()
            monitor.end_step()
        print(sorted(monitor.get_step_metrics().items()))
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    name = "activation/[root module]"
    assert done.stdout.strip() == str([(f"{name}/max", 0.0), (f"{name}/numel", 2.0)])


def test_a_parameter_that_cannot_be_read_is_named(caplog: pytest.LogCaptureFixture) -> None:
    monitor = every(nn.Linear(2, 2, device="meta"))
    monitor.add_parameter_metric("mean")
    monitor.begin_step(0)
    monitor.monitor_parameters()
    monitor.end_step()
    named = [
        f"parameter/{name} cannot be measured: its tensor is meta" for name in ("weight", "bias")
    ]
    assert [text.removeprefix("Step 0: ") for text in caplog.messages] == named


def test_what_a_metric_takes_out_of_the_output_is_measured_all_the_same() -> None:
    key = "".join(["k", "ey"])  # nobody else holds it
    output = {key: [torch.zeros(1), torch.ones(1)]}
    del key
    model = Gives(output)
    monitor = every(model)
    monitor.add_activation_metric("emptied", lambda t: output.clear() or t.sum())
    names = {f"activation/[root module].key.{i}/emptied": float(i) for i in range(2)}
    assert measure(monitor, model) == names


def test_fields_of_a_dataclass_with_slots_are_measured_and_compared() -> None:
    @dataclasses.dataclass(slots=True)
    class Slotted:
        hidden: torch.Tensor

    model, reference = Gives(Slotted(torch.ones(2))), Gives(Slotted(torch.zeros(2)))
    monitor = every(model)
    monitor.set_reference_module(reference)
    monitor.add_activation_metric("mean")
    monitor.add_activation_difference_metric("l1")
    monitor.begin_step(0)
    reference()
    model()
    monitor.end_step()
    assert monitor.get_step_metrics() == {
        "activation/[root module].hidden/mean": 1,
        "activation_difference/[root module].hidden/l1": 2,
    }


def test_sparse_gradients_are_measured() -> None:
    model = nn.Embedding(10, 3, sparse=True)
    monitor = every(model)
    monitor.add_gradient_metric("norm")
    monitor.begin_step(0)
    model(torch.tensor([1, 1, 4])).sum().backward()
    monitor.monitor_gradients()
    monitor.end_step()
    exact = float(model.weight.grad.to_dense().norm())
    assert close(monitor.get_step_metrics()["gradient/weight/norm"], exact)


ON_A_DEVICE = """
import torch
from tensortap.monitor import ModuleMonitor
torch.manual_seed(0)
model = torch.nn.Linear(5, 4)
monitor = ModuleMonitor(lambda step: True)
monitor.set_module(model)
for name in ("mean", "std", "zeros", "norm", "hist"):
    monitor.add_activation_metric(name)
    monitor.add_parameter_metric(name)
monitor.begin_step(0)
model(torch.randn(3, 5))
model(torch.randn(3, 5))
monitor.monitor_parameters()
monitor.end_step()
for key, value in sorted(monitor.get_step_metrics().items()):
    print(key.replace(" ", "_"), repr(value))
"""


def test_the_path_of_other_devices_gives_the_same(tmp_path: Path) -> None:
    answers = []
    for forced in ("", "1"):
        done = forked(ON_A_DEVICE, tmp_path, TENSORTAP_DEVICE_PATH=forced)
        assert done.returncode == 0, done.stderr
        answers.append([line.split() for line in done.stdout.splitlines()])
    assert len(answers[0]) == 27
    assert [key for key, _ in answers[0]] == [key for key, _ in answers[1]]
    for (key, a), (_, b) in zip(*answers, strict=True):
        assert close(float(a), float(b)), key


@needs_exchange_table
def test_a_named_metric_copies_nothing_and_asks_torch_for_nothing() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Note(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def operations(run: Callable[[], Any]) -> list[str]:
        with Note() as note:
            run()
        return note.seen

    x = torch.ones(2, 4)
    plain = operations(lambda: model(x))
    monitor = every(model)
    monitor.add_activation_metric("mean")
    monitor.add_activation_metric("std")
    monitor.add_parameter_metric("norm")
    monitor.begin_step(0)
    assert operations(lambda: model(x)) == plain
    assert operations(monitor.monitor_parameters) == []
    assert operations(monitor.end_step) == []
    assert len(monitor.get_step_metrics()) == 8
