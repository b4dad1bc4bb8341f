"""At which step, and at which instant of it, things are recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from recorded import EVAL, TRAIN, batch, mlp, record  # noqa: E402
from torch import nn  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap import _core  # noqa: E402


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
            recorder.step()

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
