"""Watch, monitor and trace on one transformer together, against the most expensive of them alone.

The cost is what a step takes longer than a plain one.  Steps without and with each of them
alternate in one process.  Parameters and gradients are measured by the monitor when the program
asks for it, which is another instant than the optimizer's step: those are read twice.
SPDX-License-Identifier: Apache-2.0
"""

import tempfile
from contextlib import ExitStack
from statistics import median

import harness
import torch
from torch import nn

from tensortap import _core
from tensortap.monitor import ModuleMonitor
from tensortap.runs.watch import watch
from tensortap.trace import ModelTracer

torch.set_num_threads(1)
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(8, 64, 256)
TURNS, EACH = 15, 2
count = 0


def step(monitor: ModuleMonitor | None = None, parameters: bool = False) -> None:
    """Train one step; *parameters*: measure parameters and gradients too."""
    global count
    count += 1
    if monitor is not None:
        monitor.begin_step(count)
    model(x).square().mean().backward()
    if monitor is not None and parameters:
        monitor.monitor_parameters()
        monitor.monitor_gradients()
    optimizer.step()
    optimizer.zero_grad()
    if monitor is not None:
        monitor.end_step()


def seconds(which: set[str], recorder: _core.Recorder) -> float:
    """Return the time of a step with these switched on, once they know the model."""
    with ExitStack() as stack:
        monitor = None
        if "watch" in which:
            stack.enter_context(watch(model, run=recorder))
        if "trace" in which:
            stack.enter_context(ModelTracer(model, ["layers.*"], gathering_interval=4))
        if which & {"monitor", "parameters"}:
            monitor = stack.enter_context(ModuleMonitor(monitor_step_fn=lambda step: True))
            monitor.set_module(model)
            for name in ("mean", "std"):
                monitor.add_activation_metric(name)
            monitor.add_parameter_metric("norm")
            monitor.add_gradient_metric("norm")
        parameters = "parameters" in which
        step(monitor, parameters), step(monitor, parameters)  # names are made once
        return min(harness.seconds(lambda: step(monitor, parameters)) for _ in range(EACH))


CASES: dict[str, set[str]] = {
    "watch": {"watch"},
    "monitor": {"monitor"},
    "trace": {"trace"},
    "watch + monitor": {"watch", "monitor"},
    "watch + monitor + trace": {"watch", "monitor", "trace"},
    "watch + monitor + trace, parameters in both": {"watch", "parameters", "trace"},
}
for _ in range(3):
    step()
cost: dict[str, list[float]] = {name: [] for name in CASES}
with tempfile.TemporaryDirectory() as folder:
    recorder = _core.Recorder(f"{folder}/run")
    for _ in range(TURNS):
        plain = seconds(set(), recorder)
        for name, which in CASES.items():
            cost[name].append(seconds(which, recorder) / plain - 1)
    recorder.close()
share = {name: median(found) for name, found in cost.items()}
for name, value in share.items():
    harness.row(f"together: {name}, of the step", 100 * value, None, unit="%")
most = max(share[name] for name in ("watch", "monitor", "trace"))
harness.row(
    "watch + monitor + trace together, of the most expensive alone",
    share["watch + monitor + trace"] / most,
    1.15,
    unit="x",
    at_most=True,
)
