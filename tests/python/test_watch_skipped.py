"""Steps that did not happen are seen, and marked."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from recorded import batch, mlp, record  # noqa: E402


@pytest.mark.parametrize("zero_first", [True, False])
def test_a_step_that_the_grad_scaler_skips_is_seen_and_marked(
    tmp_path: Path, zero_first: bool
) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def train(_: object) -> None:
        for i in range(4):
            x = batch(i) * (torch.inf if i == 1 else 1.0)
            if zero_first:
                optimizer.zero_grad()
            loss = model(x).sum()
            if not zero_first:
                optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    run = record(tmp_path, model, train)
    assert [(p.step, p.skipped) for p in run.at("gradient/0.weight")] == [
        (0, False), (1, True), (2, False), (3, False),
    ]  # fmt: skip
    skipped = run.at("gradient/0.weight")[1].stats
    assert skipped.nan + skipped.posinf + skipped.neginf > 0
    assert run.steps("activation/0") == [0, 1, 2, 3]
    assert run.steps("learning_rate") == [0, 2, 3]


def test_a_skipped_last_step_is_written_when_the_run_ends(tmp_path: Path) -> None:
    model = mlp()

    def train(_: object) -> None:
        model(batch(0) * torch.inf).sum().backward()

    assert [p.skipped for p in record(tmp_path, model, train).at("gradient/0.weight")] == [True]


def test_accumulating_non_finite_gradients_without_a_scaler_skips_nothing(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        for i in range(4):
            model(batch(i) * (torch.nan if i == 0 else 1.0)).sum().backward()
            if i % 2 == 1:
                optimizer.step()
                optimizer.zero_grad()

    run = record(tmp_path, model, train)
    assert [(p.step, p.skipped) for p in run.at("gradient/0.weight")] == [(0, False), (1, False)]


def test_a_scaler_that_comes_late_is_noticed_by_the_step_it_skips(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(_: object) -> None:
        for i in range(3):
            model(batch(i)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        for i in range(3):  # skipped by hand: the first is not known to be one
            model(batch(i) * torch.inf).sum().backward()
            optimizer.zero_grad()

    run = record(tmp_path, model, train)
    assert [p.skipped for p in run.at("gradient/0.weight")] == [False] * 3 + [True] * 2


def test_a_parameter_that_no_optimizer_has_is_not_said_to_be_skipped(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)  # of 2 layers

    def train(_: object) -> None:
        for i in range(12):
            model(batch(i) * (torch.nan if i > 1 else 1.0)).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    run = record(tmp_path, model, train)
    for site in ("gradient/0.weight", "gradient/2.weight"):
        assert not any(p.skipped for p in run.at(site)), site
    assert run.at("gradient/2.weight")
