"""Watch, monitor and trace on one transformer together, against the most expensive of them alone.

They cost one to three percent of a training step, and such steps differ from each other by more.
So the modules compute nothing here: each returns what it returned in one real forward pass, and
the gradients are those of one real backward pass.  A step then takes what watching it costs.
Each combination has its own copy of the model; their steps alternate in one process.

Parameters and gradients are measured by the monitor when the program asks for it, which is
another instant than the optimizer's step: those are read twice.
SPDX-License-Identifier: Apache-2.0
"""

import copy
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

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
x = torch.randn(8, 64, 256)
TURNS = 60
GATHERING = 4  # steps; the values are then dropped, as by a callback that saves them

CASES: dict[str, set[str]] = {
    "nothing": set(),
    "watch": {"watch"},
    "monitor": {"monitor"},
    "trace": {"trace"},
    "watch + monitor": {"watch", "monitor"},
    "watch + monitor + trace": {"watch", "monitor", "trace"},
    "watch + monitor + trace, parameters in both": {"watch", "monitor", "trace", "parameters"},
}


class Idle(torch.optim.Optimizer):
    """Leaves the parameters as they are."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> None:
        pass


def again(inner: list[nn.Module], output: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the modules inside, and return the output once more, as a new tensor."""
    for module in inner:
        module(x)
    return (output[0][:], *output[1:]) if isinstance(output, tuple) else output[:]


def stand_in() -> nn.Module:
    """Return a copy of the model whose modules return what they returned, without computing it."""
    copied = copy.deepcopy(model)
    called: list[tuple[nn.Module, Any]] = []
    handles = [
        module.register_forward_hook(lambda module, args, output: called.append((module, output)))
        for module in copied.modules()
    ]
    copied(x).square().mean().backward()
    for handle in handles:
        handle.remove()
    waiting: list[nn.Module] = []
    for module, output in called:  # in order of return: those inside a module come before it
        inside = set(module.modules())
        inner = [one for one in waiting if one in inside]
        waiting = [one for one in waiting if one not in inside] + [module]
        ready = tuple(output) if isinstance(output, (tuple, list)) else output
        module.forward = partial(again, inner, torch.utils._pytree.tree_map(detached, ready))
    return copied


def detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def drop(name: str, *lists: list[Any]) -> None:
    for one in lists:
        one.clear()


def make_step(which: set[str], recorder: _core.Recorder, stack: ExitStack) -> Callable[[], None]:
    """Return a step of a model of its own, with these switched on."""
    mine = stand_in()
    optimizer = Idle(mine.parameters())
    monitor: ModuleMonitor | None = None
    if "watch" in which:
        stack.enter_context(watch(mine, run=recorder))
    if "trace" in which:
        tracer = ModelTracer(
            mine, ["layers.*"], gathering_interval=GATHERING, post_gather_callbacks=[drop]
        )
        stack.enter_context(tracer)
    if "monitor" in which:
        monitor = stack.enter_context(ModuleMonitor(monitor_step_fn=lambda step: True))
        monitor.set_module(mine)
        for name in ("mean", "std"):
            monitor.add_activation_metric(name)
        monitor.add_parameter_metric("norm")
        monitor.add_gradient_metric("norm")
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if monitor is not None:
            monitor.begin_step(count)
        mine(x)
        if monitor is not None and "parameters" in which:
            monitor.monitor_parameters()
            monitor.monitor_gradients()
        optimizer.step()
        if monitor is not None:
            monitor.end_step()

    return step


with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
    recorder = _core.Recorder(f"{folder}/run")
    steps = [make_step(which, recorder, stack) for which in CASES.values()]
    for _ in range(GATHERING):  # names are made once
        for one in steps:
            one()
    taken = harness.times(*steps, turns=TURNS)
    stack.close()
    recorder.close()
cost = {name: one - taken[0] for name, one in zip(CASES, taken, strict=True)}
for name in list(CASES)[1:]:
    harness.row(f"together: {name}, a step", 1e3 * cost[name], None, unit="ms")
most = max(cost[name] for name in ("watch", "monitor", "trace"))
harness.row(
    "watch + monitor + trace together, of the most expensive alone",
    cost["watch + monitor + trace"] / most,
    1.15,
    unit="x",
    at_most=True,
)
