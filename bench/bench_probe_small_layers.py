"""100 small layers, compiled and watched, beside torch-module-monitor 0.1.0 on the eager model.

Extra time is that of a step above the same step that nobody observes.  What torch-module-monitor
adds is that of its quick start, as in bench_monitor_quick_start.py.
"""

import tempfile
import time
from collections.abc import Callable
from statistics import median

import harness
import torch
import torch_module_monitor
from torch import nn
from torch._dynamo.utils import counters

import tensortap as tt

torch.set_num_threads(1)
x = torch.randn(16, 64)


class Training:
    """A model, its optimizer, and who observes it."""

    def __init__(self, is_compiled: bool) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(100)))
        self.call = torch.compile(self.model, fullgraph=True) if is_compiled else self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        self.monitor: torch_module_monitor.ModuleMonitor | None = None
        self.steps = 0

    def observe(self) -> None:
        """Have torch-module-monitor measure what its quick start does."""
        self.monitor = torch_module_monitor.ModuleMonitor(monitor_step_fn=lambda step: True)
        self.monitor.set_module(self.model)
        self.monitor.add_activation_metric("mean", lambda x: x.mean())
        self.monitor.add_activation_metric("std", lambda x: x.std())
        self.monitor.add_parameter_metric("norm", lambda x: x.norm())
        self.monitor.add_gradient_metric("norm", lambda x: x.norm())

    def step(self) -> float:
        start = time.thread_time_ns()
        if self.monitor is not None:
            self.monitor.begin_step(self.steps)
        self.call(x).square().mean().backward()
        if self.monitor is not None:
            self.monitor.monitor_parameters()
            self.monitor.monitor_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.monitor is not None:
            self.monitor.end_step()
        self.steps += 1
        return float(time.thread_time_ns() - start)


def extra(observed: Training, plain: Training, turns: int) -> float:
    """Return the time that a step takes more."""
    for _ in range(3):
        plain.step(), observed.step()
    return median(observed.step() - plain.step() for _ in range(turns))


def graphs(work: Callable[[], object]) -> tuple[int, int]:
    """Return how many graphs this compiles, and the number of breaks."""
    before = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    work()
    after = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    return after[0] - before[0], after[1] - before[1]


plain, watched = Training(is_compiled=True), Training(is_compiled=True)
with tempfile.TemporaryDirectory() as folder, tt.record(f"{folder}/run"):
    tt.watch(watched.model)
    unwatched_graphs = graphs(plain.step)
    watched_graphs = graphs(lambda: [watched.step() for _ in range(5)])
    ours = extra(watched, plain, 150)
eager, monitored = Training(is_compiled=False), Training(is_compiled=False)
monitored.observe()
theirs = extra(monitored, eager, 30)
harness.row(
    "100 Linear(64, 64) compiled and watched: time added, over that of torch-module-monitor, eager",
    ours / theirs,
    0.1,
    unit="x",
    at_most=True,
)
harness.row(
    "graphs, breaks and recompilations that watching adds to them",
    float(sum(watched_graphs) - sum(unwatched_graphs)),
    0,
    unit="",
    at_most=True,
)
