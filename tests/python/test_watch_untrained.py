"""Parameters that require gradients and belong to no optimizer are named in the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import answer, tensortap

import tensortap as tt

torch = pytest.importorskip("torch")
from recorded import points  # noqa: E402

nn = torch.nn

SAYS = "require gradients but no optimizer updates them"


def two(first: str = "t", second: str = "u") -> torch.nn.Module:
    parts = {first: nn.Sequential(nn.Linear(2, 2)), second: nn.Linear(2, 2)}
    return nn.Sequential(torch.nn.modules.container.OrderedDict(parts))


def train(model: torch.nn.Module, *optimizers: torch.optim.Optimizer) -> None:
    model(torch.ones(1, 2)).sum().backward()
    for optimizer in optimizers:
        optimizer.step()


def said(folder: Path) -> list[str]:
    return [note.text for note in tt.open(folder).notes if "optimizer" in note.text]


def test_show_begins_with_parameters_that_no_optimizer_holds(tmp_path: Path) -> None:
    model = two()
    optimizer = torch.optim.SGD(model.u.parameters(), 0.1)
    run = tt.record(tmp_path / "run", model=model)
    for _ in range(2):
        train(model, optimizer)
    run.flush()
    text = f"t.0.weight, t.0.bias {SAYS}"
    assert said(tmp_path / "run") == [text], "after the first step, while it runs"
    run.close()
    assert said(tmp_path / "run") == [text], "and once"
    sentence = "t.0 (2 parameters): gradients arrive, but no optimizer updates them"
    lines = tensortap("show", "run", folder=tmp_path).stdout.splitlines()
    assert f"warning  not-optimized  {sentence}" in lines[:4]
    assert answer("show", "run", folder=tmp_path)["untrained"] == sentence


def test_frozen_parameters_and_a_second_optimizer_that_waits_are_not_named(tmp_path: Path) -> None:
    model = two()
    model.t.requires_grad_(False)
    extra = nn.Linear(2, 2)
    model.append(extra)
    often = torch.optim.SGD(model.u.parameters(), 0.1)
    seldom = torch.optim.SGD(extra.parameters(), 0.1)
    with tt.record(tmp_path / "run", model=model):
        for _ in range(3):
            train(model, often)
        train(model, often, seldom)
    assert said(tmp_path / "run") == []
    assert answer("show", "run", folder=tmp_path)["untrained"] is None


def test_a_group_that_is_added_later_takes_the_remark_back(tmp_path: Path) -> None:
    model = two()
    optimizer = torch.optim.SGD(model.u.parameters(), 0.1)
    with tt.record(tmp_path / "run", model=model):
        train(model, optimizer)
        train(model, optimizer)
        optimizer.add_param_group({"params": list(model.t.parameters())})
        train(model, optimizer)
    assert said(tmp_path / "run") == [
        f"t.0.weight, t.0.bias {SAYS}",
        "all parameters that require gradients are updated by an optimizer",
    ]
    assert SAYS not in tensortap("show", "run", folder=tmp_path).stdout


def test_without_any_optimizer_nothing_is_said_about_them(tmp_path: Path) -> None:
    model = two()
    with tt.record(tmp_path / "run", model=model):
        train(model)
    assert said(tmp_path / "run") == []


def test_a_model_with_parameters_of_no_optimizer_counts_its_steps_from_the_first(
    tmp_path: Path,
) -> None:
    model = two()
    optimizer = torch.optim.SGD(model.u.parameters(), 0.1)
    with tt.record(tmp_path / "run", model=model):
        for _ in range(3):
            train(model, optimizer)
    run = points(tmp_path / "run")
    for site in "activation/u", "gradient/u.weight":
        assert run.steps(site) == [0, 1, 2], site


def test_what_is_wrong_with_many_parameters_fits_into_80_columns(tmp_path: Path) -> None:
    model = two("a_long_name_of_a_part_that_nothing_trains")
    optimizer = torch.optim.SGD(model.u.parameters(), 0.1)
    with tt.record(tmp_path / "run", model=model):
        for _ in range(2):
            train(model, optimizer)
    lines = tensortap("show", "run", folder=tmp_path, COLUMNS="80").stdout.splitlines()
    assert any("not-optimized" in line for line in lines[:4])
    assert all(len(line) <= 80 for line in lines)
    assert max(map(len, lines)) <= 80
