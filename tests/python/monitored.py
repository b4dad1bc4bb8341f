"""Small models, monitors of every step, and what named metrics must come to."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tensortap.monitor import ModuleMonitor

FORMULAS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: x.mean(),
    "std": lambda x: x.std(),
    "var": lambda x: x.var(),
    "min": lambda x: x.min(),
    "max": lambda x: x.max(),
    "absmax": lambda x: x.abs().max(),
    "norm": lambda x: x.norm(),
    "l1": lambda x: x.abs().sum(),
    "rms": lambda x: x.square().mean().sqrt(),
    "nan": lambda x: x.isnan().sum(),
    "inf": lambda x: x.isinf().sum(),
    "zeros": lambda x: (x == 0).double().mean(),
    "numel": lambda x: torch.tensor(x.numel()),
}


def close(a: float, b: float, tolerance: float = 1e-5) -> bool:
    """Say if two numbers are the same, or both NaN."""
    if a != a or b != b:
        return a != a and b != b
    return a == b or abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-3)


def every(module: nn.Module | None = None, **options: Any) -> Any:
    """Give a monitor of every step."""
    monitor = ModuleMonitor(monitor_step_fn=lambda step: True, **options)
    if module is not None:
        monitor.set_module(module)
    return monitor


def measure(monitor: Any, run: Callable[[], Any], step: int = 0) -> dict[str, float]:
    """Give the metrics of a step in which this runs."""
    monitor.begin_step(step)
    run()
    monitor.end_step()
    metrics: dict[str, float] = monitor.get_step_metrics()
    return metrics


def pair(model: nn.Module, **options: Any) -> tuple[Any, Any]:
    """Give a monitor of a model, and the reference it was given."""
    monitor = every(model, **options)
    reference = copy.deepcopy(model)
    monitor.set_reference_module(reference)
    return monitor, reference


def change(model: nn.Module) -> None:
    """Move all parameters a little."""
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.3)


def halves() -> tuple[Any, Any]:
    """Give a model that halves its input, and its monitor, with the mean of its output."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.5)
    monitor = every(model)
    monitor.add_activation_metric("mean")
    return model, monitor


def ones(size: float) -> Any:
    """Give a tensor of one element."""
    return torch.full((1, 1), float(size))


class Gives(nn.Module):
    """Returns what it was made with."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def forward(self) -> Any:
        return self.value
