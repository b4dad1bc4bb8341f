"""At which step, and at which instant of it, things are recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from recorded import EVAL, TRAIN, points, record  # noqa: E402
from torch import nn  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap import _core  # noqa: E402
from tensortap.steps import Steps  # noqa: E402
from tensortap.watch import watch  # noqa: E402


def mlp(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def batch(i: int) -> torch.Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(i))


def test_each_optimizer_step_is_a_step_of_its_own_forward_gradients_and_parameters(
    tmp_path: Path,
) -> None:
    model, seen = mlp(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        for i in range(3):
            out = model(batch(i))
            out.sum().backward()
            seen.append((tt.stats(out), tt.stats(model[0].weight), tt.stats(model[0].weight.grad)))
            optimizer.step()
            optimizer.zero_grad()

    run = record(tmp_path, model, train)
    for site, which in (
        ("activation/(root)", 0),
        ("parameter/0.weight", 1),
        ("gradient/0.weight", 2),
    ):
        assert [(p.step, p.call, p.stats) for p in run.at(site)] == [
            (step, 0, now[which]) for step, now in enumerate(seen)
        ]


def test_the_learning_rate_and_the_gradient_norm_are_scalars_of_the_step(tmp_path: Path) -> None:
    model, norms, rates = mlp(), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def train(_: object) -> None:
        for i in range(3):
            model(batch(i)).square().sum().backward()
            norms.append(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).item())
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

    run = record(tmp_path, model, train)
    assert [p.scalar for p in run.at("gradient_norm")] == pytest.approx(norms, rel=1e-5)
    assert [p.scalar for p in run.at("learning_rate")] == rates
    assert run.steps("learning_rate") == [0, 1, 2]


def test_parameter_groups_have_learning_rates_of_their_own(tmp_path: Path) -> None:
    model = mlp()
    groups = [
        {"params": model[0].parameters(), "lr": 0.1},
        {"params": model[2].parameters(), "lr": 0.2},
    ]
    optimizer = torch.optim.SGD(groups)

    def train(_: object) -> None:
        model(batch(0)).sum().backward()
        optimizer.step()

    run = record(tmp_path, model, train)
    assert [run.at(f"learning_rate/{i}")[0].scalar for i in (0, 1)] == [0.1, 0.2]


def test_lbfgs_is_read_after_the_first_return_of_its_closure(tmp_path: Path) -> None:
    model, first = mlp(), []
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def train(_: object) -> None:
        for i in range(3):
            calls = 0

            def closure(i: int = i) -> torch.Tensor:
                nonlocal calls
                optimizer.zero_grad()
                loss = model(batch(i)).square().sum()
                loss.backward()
                calls += 1
                if calls == 1:
                    first.append((tt.stats(model[0].weight), tt.stats(model[0].weight.grad)))
                return loss

            optimizer.step(closure)
            assert calls > 1

    run = record(tmp_path, model, train)
    assert [p.stats for p in run.at("parameter/0.weight")] == [f[0] for f in first]
    assert [p.stats for p in run.at("gradient/0.weight")] == [f[1] for f in first]
    assert run.steps("gradient/0.weight") == [0, 1, 2]
    assert set(run.steps("activation/(root)")) == {0, 1, 2}


@pytest.mark.parametrize("by_name", [False, True])
def test_a_closure_gives_the_loss_back_to_whoever_steps(tmp_path: Path, by_name: bool) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        def closure() -> float:
            model(batch(0)).sum().backward()
            return 12.5

        loss = optimizer.step(closure=closure) if by_name else optimizer.step(closure)
        assert loss == 12.5

    assert record(tmp_path, model, train).steps("gradient/0.weight") == [0]


def test_accumulated_gradients_are_one_step_of_several_calls(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        for i in range(6):
            model(batch(i)).sum().backward()
            if i % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()

    run = record(tmp_path, model, train)
    assert [(p.step, p.call) for p in run.at("activation/0")] == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2),
    ]  # fmt: skip
    assert run.steps("gradient/0.weight") == [0, 1]


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


def test_parameters_without_a_gradient_have_none_recorded(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        model[0](batch(0)).sum().backward()
        optimizer.step()

    run = record(tmp_path, model, train)
    assert run.steps("gradient/0.weight") == [0]
    assert run.at("gradient/2.weight") == []
    assert run.steps("parameter/2.weight") == [0]


def test_evaluation_between_steps_belongs_to_the_step_before_with_its_own_phase(
    tmp_path: Path,
) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        for i in range(2):
            model.train()
            model(batch(i)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            model.eval()
            with torch.no_grad():
                model(batch(7))
                model(batch(8))

    run = record(tmp_path, model, train)
    one = [(0, TRAIN), (1, EVAL), (2, EVAL)]
    assert [(p.step, p.call, p.phase) for p in run.at("activation/2")] == [
        (step, call, phase) for step in (0, 1) for call, phase in one
    ]


def test_a_frozen_part_in_eval_mode_belongs_to_the_training_forward(tmp_path: Path) -> None:
    model = mlp()
    model[0].eval()
    run = record(tmp_path, model, lambda _: model(batch(0)))
    assert run.at("activation/0")[0].phase == TRAIN


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


def test_a_replaced_parameter_is_followed(tmp_path: Path) -> None:
    model = mlp()

    def train(_: object) -> None:
        model[0].weight = nn.Parameter(torch.full((8, 4), 3.0))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(batch(0)).sum().backward()
        optimizer.step()

    run = record(tmp_path, model, train)
    assert run.at("parameter/0.weight")[0].stats.min == 3.0
    assert run.steps("gradient/0.weight") == [0]


def test_the_first_step_by_hand_switches_to_counting_by_hand(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(recorder: _core.Recorder) -> None:
        for i in range(3):
            for _ in range(2):  # two optimizer steps are one of the user's
                model(batch(i)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            Steps.of(recorder).end_step()

    run = record(tmp_path, model, train)
    assert run.steps("gradient/0.weight") == [0, 1, 2, 2, 3, 3]
    assert run.steps("activation/0") == [0, 1, 2, 2, 3, 3]


def test_frozen_parameters_are_recorded_once(tmp_path: Path) -> None:
    model = mlp()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)

    def train(_: object) -> None:
        for i in range(3):
            model(batch(i)).sum().backward()
            optimizer.step()

    run = record(tmp_path, model, train)
    assert run.steps("parameter/0.weight") == [0]
    assert run.steps("parameter/2.weight") == [0, 1, 2]
    assert run.steps("activation/0") == [0, 1, 2]


def test_a_model_that_is_watched_again_has_its_frozen_parameters_recorded_again(
    tmp_path: Path,
) -> None:
    model = mlp()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    with tt.record(tmp_path / "run"):
        for i in range(8):  # a new one may get the address of an old one
            with tt.watch(model):
                model(batch(i)).sum().backward()
                optimizer.step()
    assert len(tt.open(tmp_path / "run").stats("parameter/0.weight")) == 8


def test_an_optimizer_of_other_parameters_ends_no_step(tmp_path: Path) -> None:
    model, other = mlp(), mlp(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    foreign = torch.optim.SGD(other.parameters(), lr=0.1)

    def train(_: object) -> None:
        for i in range(3):
            other(batch(i)).sum().backward()
            foreign.step()
            foreign.step()
            model(batch(i)).sum().backward()
            optimizer.step()

    run = record(tmp_path, model, train)
    assert run.steps("gradient/0.weight") == [0, 1, 2]
    assert run.steps("learning_rate") == [0, 1, 2]


def test_every_records_each_nth_step(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        for i in range(5):
            model(batch(i)).sum().backward()
            optimizer.step()

    run = record(tmp_path, model, train, plan={"every": 2, "only": "activation/*,parameter/0*"})
    assert run.steps("activation/0") == [0, 2, 4]
    assert run.steps("parameter/0.weight") == [0, 2, 4]
    assert run.at("gradient/0.weight") == run.at("parameter/2.weight") == []
