"""Named metrics of all activations, parameters and gradients of a transformer, of its step."""

from statistics import median
from typing import Any

import harness
import torch
from torch import nn

from tensortap.monitor import ModuleMonitor

torch.set_num_threads(1)
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(8, 64, 256)
count = 0


def step(monitor: Any = None) -> None:
    global count
    if monitor is not None:
        monitor.begin_step(count)
    model(x).square().mean().backward()
    if monitor is not None:
        monitor.monitor_parameters()
        monitor.monitor_gradients()
    optimizer.step()
    optimizer.zero_grad()
    if monitor is not None:
        monitor.end_step()
        monitor.get_step_metrics()
        count += 1


def made(is_on: bool) -> ModuleMonitor:
    monitor = ModuleMonitor(monitor_step_fn=lambda step: is_on)
    monitor.set_module(model)
    for name in ("mean", "std"):
        monitor.add_activation_metric(name)
    monitor.add_parameter_metric("norm")
    monitor.add_gradient_metric("norm")
    return monitor


for _ in range(3):
    step()
on, off = [], []
for _ in range(12):
    plain = harness.seconds(step)
    for is_on, taken in ((True, on), (False, off)):
        monitor = made(is_on)
        step(monitor)  # the first finds out which metrics each module has
        taken.append(harness.seconds(lambda m=monitor: step(m)) / plain)  # type: ignore[misc]
        monitor.activation_hooks.remove_all_hooks()
what = "monitor, 4-layer transformer, of the step"
harness.row(what, 100 * (median(on) - 1), 3, unit="%", at_most=True)
harness.row(f"{what}, not monitored", 100 * (median(off) - 1), 1, unit="%", at_most=True)
