"""The quick start's metrics on 100 small layers, every step, beside torch-module-monitor 0.1.0.

Extra time is that of a monitored step above the same step without a monitor.  All programs
train one and the same model in turns, because two copies of it lie differently in memory,
and that alone makes several percent.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import harness
import torch
import torch_module_monitor
from torch import nn

import tensortap.monitor

torch.set_num_threads(1)
torch.manual_seed(0)
STEPS = 3  # in a row, as in training: another program in between would empty the caches
METRICS = 602
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(100)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
x = torch.randn(16, 64)
functions: tuple[Any, ...] = (lambda x: x.mean(), lambda x: x.std(), lambda x: x.norm())


def bare() -> None:
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def monitored(monitor: Any, expected: int) -> Callable[[], None]:
    """Return a function that makes one step of the quick start."""
    step = 0

    def one() -> None:
        nonlocal step
        monitor.begin_step(step)
        model(x).square().mean().backward()
        monitor.monitor_parameters()
        monitor.monitor_gradients()
        optimizer.step()
        optimizer.zero_grad()
        monitor.end_step()
        assert len(monitor.get_step_metrics()) == expected
        step += 1

    return one


def block(package: Any, named: bool = False, is_on: bool = True) -> float:
    """Return the time of a step; a new monitor is there for these steps only."""
    if package is None:
        bare()
        return harness.seconds(lambda: [bare() for _ in range(STEPS)]) / STEPS
    monitor = package.ModuleMonitor(monitor_step_fn=lambda step: is_on)
    monitor.set_module(model)
    mean, std, norm = ("mean", "std", "norm") if named else functions
    monitor.add_activation_metric("mean", mean)
    monitor.add_activation_metric("std", std)
    monitor.add_parameter_metric("norm", norm)
    monitor.add_gradient_metric("norm", norm)
    one = monitored(monitor, METRICS if is_on else 0)
    one()  # the first finds out which metrics each module has
    taken = harness.seconds(lambda: [one() for _ in range(STEPS)]) / STEPS
    monitor.activation_hooks.remove_all_hooks()
    return taken


def extra(observed: Callable[[], float], turns: int) -> float:
    """Return what a step takes more than a bare one: the median over neighbouring blocks."""
    differences = []
    for turn in range(turns):  # each goes first equally often
        if turn % 2:
            taken = observed()
            differences.append(taken - block(None))
        else:
            without = block(None)
            differences.append(observed() - without)
    return median(differences)


theirs = extra(lambda: block(torch_module_monitor), turns=60)
ours = extra(lambda: block(tensortap.monitor, named=True), turns=400)
lambdas = extra(lambda: block(tensortap.monitor), turns=60)
off = extra(lambda: block(tensortap.monitor, named=True, is_on=False), turns=200)
without = median(block(None) for _ in range(60))
what = "monitor, quick start on 100 layers"
harness.row(f"{what}, by name: times less than torch-module-monitor", theirs / ours, 20, unit="x")
harness.row(f"{what}, with its own lambdas: times less", theirs / lambdas, 2, unit="x")
harness.row("monitor: a step not monitored", 100 * off / without, 1, unit="%", at_most=True)
taken = ", ".join(f"{time * 1e3:.2f}" for time in (theirs, ours, lambdas, off, without))
print(f"# ms: extra of theirs, by name, lambdas, off; the step: {taken}")
