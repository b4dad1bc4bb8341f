"""Answers are values: one form for findings, origins, comparisons and the fate of a run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from commands import check_schema, tensortap

import tensortap as tt
from tensortap.answers.finding import Kind


def write(path: Path, *, bad: str = "activation/fc[0]", rank: int = 0) -> Path:
    """Record a few steps, of which the last has a NaN."""
    with tt.record(path, rank=rank) if rank else tt.record(path) as run:
        for step in range(6):
            run.log("loss", 1 / (step + 1))
            run.tensor(bad, np.full(4, np.nan if step == 5 else 1.0))
            run.step()
    return path


def said_by(*arguments: object, folder: Path) -> Any:
    return json.loads(tensortap(*arguments, folder=folder).stdout)


def test_nan_and_health_give_the_same_origin(tmp_path: Path) -> None:
    write(tmp_path / "run")
    (found,) = said_by("health", "run", "--format", "json", folder=tmp_path)["findings"]
    answer = said_by("nan", "run", "--json", folder=tmp_path)["answers"][0]
    alike = set(answer) - {"place", "remedy", "next"}
    assert {key: found[key] for key in alike} == {key: answer[key] for key in alike}
    assert answer["kind"] == "origin"
    assert answer["feeds"]


@pytest.mark.parametrize("name", ["run", "a run's $HOME"])
def test_the_commands_of_an_answer_run_as_they_are(tmp_path: Path, name: str) -> None:
    write(tmp_path / name)
    write(tmp_path / "other", bad="other")
    shown = [
        *said_by("health", name, "--format", "json", folder=tmp_path)["findings"],
        *said_by("nan", name, "--json", folder=tmp_path)["answers"],
        *said_by("diff", name, "other", "--json", folder=tmp_path)["answers"],
    ]
    commands = {command for one in shown for command in one["next"]}
    assert any(command.startswith("tensortap nan") for command in commands)
    assert all(len(one["next"]) <= 3 for one in shown)
    for command in commands:
        program, *arguments = shlex.split(command)
        done = tensortap(*arguments, folder=tmp_path)
        assert program == "tensortap"
        assert done.returncode in (0, 1), (command, done.stderr)


def test_every_command_has_answers_of_one_schema(tmp_path: Path) -> None:
    write(tmp_path / "run")
    write(tmp_path / "other", bad="other")
    for command, options in {
        "health": ("run", "--format", "json"),
        "nan": ("run", "--json"),
        "top": ("run", "--json"),
        "diff": ("run", "other", "--json"),
    }.items():
        check_schema(said_by(command, *options, folder=tmp_path), command)


def test_the_text_ends_with_the_commands(tmp_path: Path) -> None:
    write(tmp_path / "run")
    printed = tensortap("nan", "run", folder=tmp_path, COLUMNS="80").stdout.splitlines()
    assert printed[-1] == "tensortap stats run 'activation/fc[0]'"
    printed = tensortap("health", "run", folder=tmp_path, COLUMNS="80").stdout.splitlines()
    assert "         tensortap nan run" in printed


def test_a_program_that_raised_is_a_fault_for_python_and_the_page(tmp_path: Path) -> None:
    def train() -> None:
        with tt.record(tmp_path / "run") as run:
            run.log("loss", 1.0)
            raise ValueError("bad luck")

    with pytest.raises(ValueError, match="bad luck"):
        train()
    (fault,) = [one for one in tt.health(tmp_path / "run").notes if one.kind == "fault"]
    assert (fault.rule, fault.severity) == ("stopped", "error")
    assert "bad luck" in fault.sentence
    assert "bad luck" in tt.open(tmp_path / "run")._repr_html_()


def test_gradients_of_skipped_steps_are_named_by_nan_and_health_alike(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(model.weight, 0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    with tt.record(tmp_path / "run", model=model):
        scaler.scale((model(torch.full((4, 2), 1e12)) - 1).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    origin = said_by("nan", "run", "--json", folder=tmp_path)["answers"][0]
    (note,) = [one for one in tt.health(tmp_path / "run").notes if one.kind == "origin"]
    assert (note.severity, note.sentence) == (origin["severity"], origin["sentence"])
    assert note.severity == "note"
    assert not tt.health(tmp_path / "run").errors


def test_show_does_not_mark_a_mask(tmp_path: Path) -> None:
    mask = np.triu(np.full((4, 4), -np.inf), 1)
    with tt.record(tmp_path / "run") as run:
        for _ in range(3):
            run.tensor("activation/mask", np.nan_to_num(mask, neginf=-np.inf))
            run.step()
    assert "not finite" not in tensortap("show", "run", folder=tmp_path).stdout
    assert tt.open(tmp_path / "run").first_nonfinite is None
    (site,) = said_by("show", "run", "--json", folder=tmp_path)["sites"]
    assert not site["finite"]  # it holds -Inf


def test_first_nonfinite_says_what_it_is_not_sure_of(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        run.tensor("activation/mask", np.array([0.0, -np.inf]))
        run.tensor("activation/fc", np.array([np.nan]))
    found = tt.open(tmp_path / "run").first_nonfinite
    assert found is not None
    assert (found.name, found.together, found.masked) == ("activation/fc", 0, 1)


def test_a_failed_test_prints_the_commands(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    with pytest.raises(tt.UnhealthyError, match=f"tensortap nan {run}"):
        tt.assert_healthy(run)


def test_every_list_of_kinds_of_answers_is_that_of_the_core() -> None:
    root = Path(__file__).parents[2]
    header = (root / "include/tensortap_tools.h").read_text()
    kinds = re.findall(r'^ +X\([A-Z]+, "(\w+)"\)', header.partition("TT_ANSWER_KIND_MAP")[2], re.M)
    assert kinds[0] == "finding"
    assert list(get_args(Kind)) == kinds
    schema = json.loads((root / "docs/schemas/answer.json").read_text())
    assert schema["properties"]["kind"]["enum"] == kinds
    assert "{kind: " + "|".join(f'"{one}"' for one in kinds) in (root / "web/data.js").read_text()
    guide = (root / "docs/guide/command.md").read_text()
    assert "`kind` (" + ", ".join(f"`{one}`" for one in kinds) + ")" in guide
