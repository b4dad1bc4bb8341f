"""Greenlets: a thread that has several calls going on, of which none is around the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from listened import X, mlp, replicated

import tensortap as tt

greenlet = pytest.importorskip("greenlet")
torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tensortap._core import ModuleConsumer  # noqa: E402
from tensortap.trace import ModelTracer  # noqa: E402
from tensortap.track import var_tracker  # noqa: E402
from tensortap.track.log import log  # noqa: E402

MANY = 5


class Waiting(nn.Module):
    """Lets the others run in the middle of its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        greenlet.getcurrent().parent.switch()
        y = y + 1
        greenlet.getcurrent().parent.switch()
        return self.last(y)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = Waiting()

    def forward(self, x: Any) -> Any:
        return self.inside(x)


def deep(left: int) -> int:
    return deep(left - 1) if left else 0


def in_turns(work: Callable[[int], object]) -> None:
    """Run work(0), work(1), ... in greenlets that go on in another order than they began in."""

    def begin(i: int) -> None:
        deep(7 * i)  # each has been elsewhere on the C stack
        work(i)

    all_of_them = [greenlet.greenlet(begin) for _ in range(MANY)]
    for i, one in enumerate(all_of_them):
        one.switch(i)
    while any(not one.dead for one in all_of_them):
        for i in (3, 0, 2, 1, 4):
            if not all_of_them[i].dead:
                all_of_them[i].switch()


@pytest.mark.parametrize("is_replica", [False, True])
def test_a_call_is_inside_those_of_its_own_greenlet_only(is_replica: bool) -> None:
    models = [Outer() for _ in range(MANY)]
    models[2].eval()
    seen: list[tuple[str, int, bool]] = []
    consumer = ModuleConsumer(
        after=lambda e: seen.append((e.name, e.depth, e.training)), depth=True
    )
    for i, model in enumerate(models):
        for name, module in model.named_modules():
            consumer.add(module, f"{i}.{name}")
    called = [replicated(model, 1) for model in models] if is_replica else models
    in_turns(lambda i: called[i](X))
    for i in range(MANY):
        own = [event[1:] for event in seen if event[0].startswith(f"{i}.")]
        assert own == [(depth, i != 2) for depth in (2, 2, 1, 0)]
    seen.clear()
    models[0].inside.first(X)
    assert seen == [("0.inside.first", 0, True)]


def test_a_watched_model_in_each_greenlet_is_recorded_whole(tmp_path: Path) -> None:
    models = [Outer() for _ in range(MANY)]
    given = [torch.full((1, 4), float(i)) for i in range(MANY)]
    with torch.no_grad():
        firsts = [model.inside.first(x) for model, x in zip(models, given, strict=True)]
    expected = [float(first.mean()) for first in firsts]
    with tt.record(tmp_path / "run"):
        for i, model in enumerate(models):
            tt.watch(model, name=f"m{i}")
        in_turns(lambda i: models[i](given[i]))
    run = tt.open(tmp_path / "run")
    for i, mean in enumerate(expected):
        assert run.series(f"activation/m{i}:inside.first", "mean")[1] == pytest.approx([mean])
        assert len(run.stats(f"activation/m{i}:(root)")) == 1


def test_a_trace_of_a_model_has_the_values_of_that_model() -> None:
    models = [Waiting() for _ in range(MANY)]
    tracers = [ModelTracer(model, ["forward.y"]) for model in models]
    for tracer in tracers:
        tracer.__enter__()
    in_turns(lambda i: models[i](torch.full((1, 4), float(i))))
    for i, (model, tracer) in enumerate(zip(models, tracers, strict=True)):
        tracer.__exit__(None, None, None)
        first = model.first(torch.full((1, 4), float(i))).detach()
        assert [v.tolist() for v in tracer.results["forward.y"].values] == [
            first.tolist(),
            (first + 1).tolist(),
        ]


def test_tracked_calls_in_greenlets_tell_their_own_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    @var_tracker("y")
    def job(i: int) -> Any:
        y = torch.full((1,), float(10 * i))
        greenlet.getcurrent().parent.switch()
        y = y + 1
        return y

    try:
        in_turns(job)
    finally:
        log.depth = 0  # the indentation is the thread's: the guide says so
    told = capsys.readouterr().out
    for i in range(MANY):
        assert f"changed: values ({10 * i} → {10 * i + 1})" in told


def test_a_greenlet_that_is_thrown_away_in_the_middle_leaves_nothing() -> None:
    model, seen = Outer(), []
    consumer = ModuleConsumer(after=lambda e: seen.append((e.name, e.depth)), depth=True)
    for name, module in model.named_modules():
        consumer.add(module, name or "(root)")
    waiting = greenlet.greenlet(model)
    waiting.switch(X)
    waiting.throw()
    seen.clear()
    other = mlp()
    consumer.add(other, "other")
    other(X)
    assert seen == [("other", 0)]
