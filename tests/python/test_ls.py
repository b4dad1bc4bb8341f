"""`tensortap ls`: what it says of each run, and which runs it says it of."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import answer, check_schema, tensortap
from torch.utils.data import DataLoader, TensorDataset

import tensortap as tt

X = torch.arange(64.0).reshape(16, 4) / 64


def train(path: Path, lr: float, batch: int, decay: float, last: float, *, more: bool) -> None:
    """Train for a few steps; log a loss that ends with *last*."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    loader = DataLoader(TensorDataset(X), batch_size=batch)
    with tt.record(path, model=model) as run:
        for (x,) in loader:
            model(x).square().mean().backward()
            optimizer.step()
            schedule.step()
        run.log("train/loss", last)
        if more:
            run.log("val/acc", last / 10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ls")
    train(made / "small", 0.001, 4, 0.0, 3.0, more=True)
    train(made / "large", 0.1, 8, 5.0, 1.0, more=True)
    train(made / "bad", 0.01, 2, 0.01, math.nan, more=False)
    return made


def names(folder: Path, *options: str) -> list[str]:
    return [run["run"] for run in answer("ls", *options, folder=folder)["runs"]]


def test_a_run_is_listed_with_its_verdict_loss_and_settings(folder: Path) -> None:
    listed = answer("ls", folder=folder)
    check_schema(listed, "ls")
    run = next(one for one in listed["runs"] if one["run"] == "large")
    said = [run[key] for key in ("loss", "loss_name", "lr", "batch", "stride")]
    assert said == [1.0, "train/loss", 0.1, 8, 1]  # not the learning rate after its schedule
    for one in listed["runs"]:
        found = tensortap("health", one["run"], "--format", "json", folder=folder)
        assert one["verdict"] == json.loads(found.stdout)["verdict"]
    bad = next(one for one in listed["runs"] if one["run"] == "bad")
    assert bad["loss"] == "NaN"
    text = tensortap("ls", folder=folder).stdout
    assert "1 error" in next(line for line in text.splitlines() if line.startswith("bad"))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--sort", "loss"], ["large", "small", "bad"]),  # NaN last
        (["--sort", "-loss"], ["small", "large", "bad"]),
        (["--sort", "lr"], ["small", "bad", "large"]),
        (["--sort", "val/acc"], ["large", "small", "bad"]),  # bad has none
        (["--sort", "-val/acc"], ["small", "large", "bad"]),
        (["--sort", "-verdict"], ["bad"]),
        (["--sort", "run"], ["bad", "large", "small"]),
        (["--where", "lr<0.05", "--sort", "run"], ["bad", "small"]),
        (["--where", "lr <= 0.01", "--sort", "run"], ["bad", "small"]),
        (["--where", "lr>=0.01", "--where", "batch=8"], ["large"]),
        (["--where", "optimizer/weight_decay=5"], ["large"]),  # recorded as 5.0
        (["--where", "weight_decay>0", "--sort", "batch"], ["bad", "large"]),
        (["--where", "class~*Exp*"], None),  # of the optimizer and of the scheduler
        (["--where", "scheduler/class~*Exponential*", "--sort", "run"], ["bad", "large", "small"]),
        (["--where", "optimizer/class!=torch.optim.AdamW"], []),
        (["--where", "val/acc<=0.1"], ["large"]),
        (["--where", "loss<2"], ["large"]),  # NaN is neither below nor above
        (["--where", "loss>2"], ["small"]),
        (["--where", "loss=nan"], ["bad"]),
        (["--where", "verdict~*error*"], ["bad"]),
        (["--where", "run~s*"], ["small"]),
        (["--where", "started>2001-01-01", "--sort", "run"], ["bad", "large", "small"]),
    ],
)
def test_runs_are_chosen_and_sorted_by_any_value(
    folder: Path, options: list[str], wanted: list[str] | None
) -> None:
    if wanted is None:
        done = tensortap("ls", *options, folder=folder)
        assert (done.returncode, "'optimizer/class' and 'scheduler/class'" in done.stderr) == (
            2,
            True,
        )
    elif options == ["--sort", "-verdict"]:
        assert names(folder, *options)[:1] == wanted
    else:
        assert names(folder, *options) == wanted


def test_what_is_asked_for_is_shown(folder: Path) -> None:
    listed = answer("ls", "--sort", "weight_decay", "--where", "val/acc>0", folder=folder)
    check_schema(listed, "ls")
    assert [run["values"] for run in listed["runs"]] == [
        {"optimizer/weight_decay": 0.0, "val/acc": pytest.approx(0.3)},
        {"optimizer/weight_decay": 5.0, "val/acc": pytest.approx(0.1)},
    ]
    text = tensortap("ls", "--where", "val/acc>0", folder=folder).stdout.splitlines()
    assert "val/acc" in text[0]
    assert text[-1] == "2 of 3 runs; 1 without these values"


def test_a_wrong_key_is_answered_with_the_nearest(folder: Path) -> None:
    for key, near in (
        ("weight_deca", "'optimizer/weight_decay'"),
        ("val/ac", "'val/acc'"),
        ("vredict", "'verdict'"),
        ("optimizer/lrr", "'optimizer/lr'"),
    ):
        done = tensortap("ls", "--sort", key, folder=folder)
        assert done.returncode == 2
        assert (
            f"no run has a setting or a logged number '{key}'; the nearest: {near}" in done.stderr
        )


def test_a_table_fits_into_a_terminal(folder: Path) -> None:
    for columns in (60, 80, 100, 120, 200):
        done = tensortap("ls", "--sort", "val/acc", folder=folder, COLUMNS=str(columns))
        lines = done.stdout.splitlines()
        assert all(len(line) <= columns for line in lines)
        assert {"RUN", "VERDICT", "LOSS"} <= set(lines[0].split())


def test_a_verdict_that_takes_long_is_looked_for_when_asked(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", keep="value") as run:
        run.log("loss", 1.0)
        run.tensor("w", np.random.default_rng(0).standard_normal(3_000_000))
        run.step()
    done = tensortap("ls", folder=tmp_path)
    assert " ? " in done.stdout
    assert "--verdict reads every point for it" in done.stdout
    assert answer("ls", folder=tmp_path)["runs"][0]["verdict"] is None
    for option in (["--verdict"], ["--where", "verdict~*"], ["--sort", "verdict"]):
        assert answer("ls", *option, folder=tmp_path)["runs"][0]["verdict"].startswith("nothing")


def test_a_thinned_run_is_marked(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).standard_normal((12_000, 8))
    with tt.record(tmp_path / "run", disk=3_000_000) as run:
        for step, values in enumerate(numbers):
            for site in range(8):
                run.tensor(f"activation/{site}", values * (site + 1))
            run.log("loss", float(step))
            run.step()
            if step % 64 == 0:
                run.flush()
    [run_] = answer("ls", folder=tmp_path)["runs"]
    assert run_["stride"] > 1
    assert run_["loss"] == 11_999
    assert f" 1 in {run_['stride']} " in tensortap("ls", folder=tmp_path).stdout


def test_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    with tt.record(tmp_path / "a\x1b[31m\nb") as run:
        run.log("x\x1b]0;title\x07", 1.0)
    done: Any = tensortap("ls", "--sort", "x\x1b]0;title\x07", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert len(done.stdout.splitlines()) == 2
