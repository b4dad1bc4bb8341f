"""Run a piece of training under a recorder, and give back what was recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tensortap import _core
from tensortap.runs.watch import Watched, watch

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

TRAIN, EVAL = 1, 2


class Point(NamedTuple):
    site: str
    step: int
    call: int
    thread: int
    phase: int
    skipped: bool
    products: int
    stats: Any
    scalar: float | None


class Recorded(list[Point]):
    """All points of a run, in order of site, then of recording."""

    def at(self, site: str) -> list[Point]:
        return [p for p in self if p.site == site]

    def steps(self, site: str) -> list[int]:
        return [p.step for p in self.at(site)]

    def sites(self) -> set[str]:
        return {p.site for p in self}


def mlp(seed: int = 0) -> nn.Sequential:
    """Give a small model with the same numbers each time."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def batch(i: int) -> torch.Tensor:
    """Give the input of step i."""
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(i))


def points(path: Path) -> Recorded:
    """Give all but what a run says of itself."""
    reader, found = _core.RunReader(path), Recorded()
    for file in range(len(reader.files())):
        for name in reader.names("*"):
            site = reader.find(name)
            if name.startswith("tensortap/"):
                continue
            for i in range(reader.points(file, site)):
                step, _, call, thread, phase, skipped, products, value, stats, _ = reader.point(
                    file, site, i
                )
                scalar = value if products & 1 else None
                found.append(
                    Point(name, step, call, thread, phase, skipped, products, stats, scalar)
                )
    reader.close()
    return found


def record(
    tmp_path: Path,
    model: torch.nn.Module,
    train: Callable[[_core.Recorder], object],
    *,
    plan: dict[str, Any] | None = None,
    **options: Any,
) -> Recorded:
    """Record train(recorder) with the model watched; our own warnings are errors."""
    recorder = _core.Recorder(str(tmp_path / "run"), **(plan or {}))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="tensortap")
        hidden = ".*does not show modules inside compiled code"  # torch 2.6
        warnings.filterwarnings("ignore", message=hidden)
        try:
            watch(model, run=recorder, **options)
            train(recorder)
        finally:
            recorder.close()
    return points(tmp_path / "run")


__all__ = ["EVAL", "TRAIN", "Point", "Recorded", "Watched", "batch", "mlp", "points", "record"]
