"""100 Linear(64, 64) layers, batch 32: the extra time against that of torch-module-monitor."""

import sys
import tempfile
from statistics import median

import harness
import torch
from torch import nn

from tensortap import _core
from tensortap.watch import watch

try:
    from torch_module_monitor import ModuleMonitor
except ImportError:
    sys.exit("torch-module-monitor is not there: pip install torch-module-monitor==0.1.0")

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(100)))
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(32, 64)


def forward_backward() -> None:
    model(x).square().mean().backward()


def plain_step() -> None:
    forward_backward()
    optimizer.step()
    optimizer.zero_grad()


def take(step, turns: int = 12) -> list[float]:
    step()
    return [harness.seconds(step) for _ in range(turns)]


def with_us(recorder: _core.Recorder) -> list[float]:
    watched = watch(model, run=recorder)
    try:
        return take(plain_step)
    finally:
        watched.remove()


def with_them() -> list[float]:
    monitor = ModuleMonitor(monitor_step_fn=lambda step: True)
    monitor.set_module(model)
    monitor.add_activation_metric("mean", lambda t: t.mean())
    monitor.add_activation_metric("std", lambda t: t.std())
    monitor.add_activation_metric("norm", lambda t: t.norm())
    monitor.add_parameter_metric("norm", lambda t: t.norm())
    monitor.add_gradient_metric("norm", lambda t: t.norm())
    count = 0

    def step() -> None:
        nonlocal count
        monitor.begin_step(count)
        forward_backward()
        monitor.monitor_parameters()
        monitor.monitor_gradients()
        optimizer.step()
        optimizer.zero_grad()
        monitor.end_step()
        count += 1

    try:
        return take(step)
    finally:
        for module in model.modules():
            module._forward_hooks.clear()


plain, ours, theirs = [], [], []  # the least of each turn
with tempfile.TemporaryDirectory() as folder:
    # One run for all turns, as a training has: a recorder's start is not a step's cost.
    recorder = _core.Recorder(f"{folder}/run")
    for _ in range(9):
        before = min(take(plain_step))
        ours.append(min(with_us(recorder)))
        plain.append(min(before, *take(plain_step)))
        theirs.append(min(with_them()))
    recorder.close()
extra = median(one - two for one, two in zip(ours, plain, strict=True))
base = median(one - two for one, two in zip(theirs, plain, strict=True))
harness.row(
    "100 linear layers, extra time, times less than torch-module-monitor",
    base / extra,
    20,
    unit="x",
)
harness.row(
    "100 linear layers, extra time of the step",
    extra / median(plain) * 100,
    50,
    unit="%",
    at_most=True,
)
