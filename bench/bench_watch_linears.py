"""100 Linear(64, 64) layers, batch 32: the extra time against that of torch-module-monitor."""

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import harness
import torch
from torch import nn

from tensortap import _core
from tensortap.runs.watch import watch

try:
    from torch_module_monitor import ModuleMonitor
except ImportError:
    sys.exit("torch-module-monitor is not there: pip install torch-module-monitor==0.1.0")

Step = Callable[[], None]
TURNS, WARM, STEPS = 60, 2, 5

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(100)))
for layer in model:
    nn.init.orthogonal_(layer.weight)  # or the hundredth layer computes with denormals
# The least of a step that is not watching: a long one drowns the difference.
optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
x = torch.randn(32, 64)


def forward_backward() -> None:
    model(x).square().mean().backward()


def end_step() -> None:
    optimizer.step()
    optimizer.zero_grad()


def plain_step() -> None:
    forward_backward()
    end_step()


@contextmanager
def plain() -> Iterator[Step]:
    yield plain_step


@contextmanager
def ours() -> Iterator[Step]:
    with watch(model, run=recorder):
        yield plain_step


@contextmanager
def theirs() -> Iterator[Step]:
    monitor = ModuleMonitor(monitor_step_fn=lambda step: True)
    monitor.set_module(model)
    monitor.add_activation_metric("mean", lambda t: t.mean())
    monitor.add_activation_metric("std", lambda t: t.std())
    monitor.add_activation_metric("norm", lambda t: t.norm())
    monitor.add_parameter_metric("norm", lambda t: t.norm())
    monitor.add_gradient_metric("norm", lambda t: t.norm())
    steps = itertools.count()

    def step() -> None:
        monitor.begin_step(next(steps))
        forward_backward()
        monitor.monitor_parameters()
        monitor.monitor_gradients()
        end_step()
        monitor.end_step()

    try:
        yield step
    finally:
        for module in model.modules():
            module._forward_hooks.clear()


def turn(order: tuple[Callable, ...]) -> list[float]:
    """Give the best time of a step of each kind, taken right behind each other in this order."""
    taken = {}
    for kind in order:
        with kind() as step:
            for _ in range(WARM):
                step()
            taken[kind] = min(harness.seconds(step) for _ in range(STEPS))
    return [taken[kind] for kind in (plain, ours, theirs)]


def other_threads(steps: int = 100) -> float:
    """Give the processor time that a watched step takes in other threads: the writer's."""
    with ours() as step:
        step()
        recorder.flush()
        before = time.process_time() - time.thread_time()
        for _ in range(steps):
            step()
        recorder.flush()
        return (time.process_time() - time.thread_time() - before) / steps


with tempfile.TemporaryDirectory() as folder:
    # One run for all turns, as a training has: a recorder's start is not a step's cost.
    recorder = _core.Recorder(f"{folder}/run")
    orders = itertools.cycle(itertools.permutations((plain, ours, theirs)))
    turns = [turn(next(orders)) for _ in range(TURNS + 6)][6:]
    writer = median(other_threads() for _ in range(5))
    recorder.close()
extra = median(us - none for none, us, _ in turns)
other = median(them - none for none, _, them in turns)
step_time = median(none for none, _, _ in turns)
harness.row(
    "100 linear layers, extra time, times less than torch-module-monitor",
    other / extra,
    20,
    unit="x",
)
harness.row(
    "100 linear layers, extra time of the step",
    extra / step_time * 100,
    50,
    unit="%",
    at_most=True,
)
harness.row(
    "100 linear layers, the writer in its own thread meanwhile, of the step",
    writer / step_time * 100,
    None,
    unit="%",
    at_most=True,
)
if "-v" in sys.argv:
    times = {"step": step_time, "ours": extra, "writer": writer, "theirs": other}
    for name, took in times.items():
        print(f"{name} {1e6 * took:.0f} us", file=sys.stderr)
