"""Which optimizers make up a step, where there are several, or several models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from recorded import batch, mlp, points, record  # noqa: E402
from torch import nn  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap import _core  # noqa: E402
from tensortap.runs.steps import Steps  # noqa: E402
from tensortap.runs.watch import watch  # noqa: E402


def test_two_optimizers_that_take_turns_make_one_step(tmp_path: Path) -> None:
    model = mlp()
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    second = torch.optim.Adam(model[2].parameters(), lr=0.2)

    def train(_: object) -> None:
        for i in range(4):
            for optimizer in (first, second):
                first.zero_grad()
                second.zero_grad()
                model(batch(i)).sum().backward()
                optimizer.step()

    run = record(tmp_path, model, train)
    assert run.steps("gradient/0.weight") == run.steps("gradient/2.weight") == [0, 1, 2, 3]
    assert run.steps("activation/0") == [0, 0, 1, 1, 2, 2, 3, 3]
    assert run.at("Adam2:learning_rate")[0].scalar == 0.2


def test_an_optimizer_that_steps_again_ends_the_step_whatever_the_others_do(tmp_path: Path) -> None:
    model = mlp()
    often = torch.optim.SGD(model[0].parameters(), lr=0.1)
    seldom = torch.optim.SGD(model[2].parameters(), lr=0.1)

    def train(_: object) -> None:
        model(batch(0)).sum().backward()
        for i in range(6):
            often.step()
            if i % 3 == 2:
                seldom.step()

    run = record(tmp_path, model, train)
    assert run.steps("gradient/0.weight") == [0, 1, 2, 3, 4, 5]
    assert run.steps("gradient/2.weight") == [2, 5]


def test_a_model_that_replaces_another_half_way_is_recorded_beside_it(tmp_path: Path) -> None:
    recorder = _core.Recorder(str(tmp_path / "run"))

    def fit(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(2):
            model(batch(i)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    model: Any = mlp()
    handle = watch(model, run=recorder)
    fit(model)
    handle.remove()
    model = mlp(1)
    watch(model, run=recorder, name="second")
    fit(model)
    model = nn.Sequential(nn.Linear(4, 4))
    watch(model, run=recorder)
    fit(model)
    recorder.close()
    run = points(tmp_path / "run")
    assert run.steps("activation/0") == [0, 1]
    assert run.steps("activation/second:0") == [2, 3]
    assert run.steps("gradient/Sequential2:0.weight") == [4, 5]


@pytest.mark.parametrize("is_kept", [False, True], ids=["gone", "idle"])
def test_a_model_trained_before_is_not_waited_for(tmp_path: Path, is_kept: bool) -> None:
    kept = []
    with tt.record(tmp_path / "run"):
        models = [mlp(), mlp(1), mlp(2)]
        for model in models:
            tt.watch(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            if is_kept:
                kept.append(optimizer)
            for i in range(2):
                model(batch(i)).sum().backward()
                optimizer.step()
    run = tt.open(tmp_path / "run")
    for first, name in ((0, "0"), (2, "Sequential2:0"), (4, "Sequential3:0")):
        assert list(run.series(f"activation/{name}")[0]) == [first, first + 1]
        assert list(run.series(f"gradient/{name}.weight")[0]) == [first, first + 1]


def test_a_model_trained_before_that_runs_again_makes_up_the_step_with_the_new_one(
    tmp_path: Path,
) -> None:
    judge, maker = mlp(), nn.Sequential(nn.Linear(4, 4))
    judging = torch.optim.SGD(judge.parameters(), lr=0.1)
    making = torch.optim.SGD(maker.parameters(), lr=0.1)
    with tt.record(tmp_path / "run"):
        tt.watch(judge)
        for i in range(2):
            judge(batch(i)).sum().backward()
            judging.step()
        tt.watch(maker, name="maker")
        for i in range(3):
            judge(maker(batch(i))).sum().backward()
            making.step()
            judge(maker(batch(i)).detach()).sum().backward()
            judging.step()
    run = tt.open(tmp_path / "run")
    assert list(run.series("activation/maker:0")[0]) == [2, 2, 3, 3, 4, 4]
    assert list(run.series("gradient/maker:0.weight")[0]) == [2, 3, 4]
    assert list(run.series("gradient/0.weight")[0]) == [0, 1, 2, 3, 4]


def test_the_models_that_are_left_make_up_the_step_as_before(tmp_path: Path) -> None:
    models = [mlp(), mlp(1), mlp(2)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    with tt.record(tmp_path / "run"):
        handles = [tt.watch(model, name=f"m{n}") for n, model in enumerate(models)]
        for i in range(4):
            if i == 2:
                handles[0].remove()
            for model, optimizer in zip(models, optimizers, strict=True):
                model(batch(i)).sum().backward()
                optimizer.step()
    run = tt.open(tmp_path / "run")
    assert list(run.series("activation/m0:0")[0]) == [0, 1]
    assert list(run.series("activation/m1:0")[0]) == [0, 1, 2, 3]
    assert list(run.series("activation/m2:0")[0]) == [0, 1, 2, 3]


def test_an_optimizer_that_takes_over_is_not_held_up_by_the_one_before(tmp_path: Path) -> None:
    model = mlp()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2)]

    def train(_: object) -> None:
        for optimizer in optimizers:
            for i in range(3):
                model(batch(i)).sum().backward()
                optimizer.step()

    run = record(tmp_path, model, train)
    assert run.steps("activation/0") == run.steps("gradient/0.weight") == [0, 1, 2, 3, 4, 5]


def test_optimizers_made_anew_make_up_the_step_as_those_before(tmp_path: Path) -> None:
    models = [mlp(), mlp(1)]
    with tt.record(tmp_path / "run"):
        for model in models:
            tt.watch(model)
        for _epoch in range(2):
            optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
            for i in range(2):
                for model, optimizer in zip(models, optimizers, strict=True):
                    model(batch(i)).sum().backward()
                    optimizer.step()
    run = tt.open(tmp_path / "run")
    assert list(run.series("activation/0")[0]) == [0, 1, 2, 3]
    assert list(run.series("activation/Sequential2:0")[0]) == [0, 1, 2, 3]


def test_an_optimizer_of_other_parameters_ends_no_step_and_makes_none_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Steps] = []  # each asks about all parameters
    look = Steps.warn_of_gaps
    monkeypatch.setattr(Steps, "warn_of_gaps", lambda self: (looks.append(self), look(self)))
    model, other = mlp(), mlp(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    foreign = torch.optim.SGD(other.parameters(), lr=0.1)

    def train(_: object) -> None:
        for i in range(4):
            other(batch(i)).sum().backward()
            foreign.step()
            foreign.step()
            model(batch(i)).sum().backward()
            optimizer.step()

    run = record(tmp_path, model, train)
    assert run.steps("gradient/0.weight") == [0, 1, 2, 3]
    assert run.steps("learning_rate") == [0, 1, 2, 3]
    assert len(looks) == 1
