"""Of several ranks, the one that failed is named first, and those that only lost contact as such.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from commands import tensortap
from ranks import run_ranks, said

import tensortap as tt

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402


def train(rank: int, world: int, folder: str, how: str) -> None:
    """Train on every rank; rank 1 fails at step 6."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tt.record(folder, model=model) as run:
        for step in range(10):
            if rank == 1 and step == 6:
                run.flush()
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("bad luck")
            optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()


@pytest.mark.parametrize("how", ["killed", "raised"])
def test_the_rank_that_failed_comes_before_its_victims(tmp_path: Path, how: str) -> None:
    run_ranks(2, train, str(tmp_path / "run"), how, timeout=20)
    stopped = tt.open(tmp_path / "run").files[0].stopped
    assert stopped is not None
    assert stopped.startswith("stopped by ")  # gloo's own words
    cause = (
        "rank 1 was killed or crashed, the last step is 5"
        if how == "killed"
        else "rank 1 was stopped by ValueError: bad luck"
    )
    for command in ("show", "explain", "health"):
        text = tensortap(command, "run", folder=tmp_path, COLUMNS="300").stdout
        assert cause in text, command
        assert "rank 0 lost contact: stopped by " in text
        assert text.index(cause) < text.index("rank 0 lost contact")
    faults = [one for one in tt.health(tmp_path / "run").notes if one.kind == "fault"]
    assert [(one.rule, one.ranks) for one in faults] == [
        ("killed" if how == "killed" else "stopped", (1,)),
        ("lost-contact", (0,)),
    ]
    assert faults[0].sentence == cause
    if how == "raised":
        verdict = tt.health(tmp_path / "run", ignore=["repeated-batch"]).verdict
        assert "the program was stopped by ValueError: bad luck" in verdict


class Upside(nn.Module):
    """Registers its layers in another order than it calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.first, self.middle = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
        self.where = ""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.middle(self.first(x))
        if self.where == "backward":
            y.register_hook(lambda gradient: gradient * torch.nan)
        z = self.last(y)
        return z * torch.nan if self.where == "forward" else z


def train_together(rank: int, world: int, folder: str, where: str) -> None:
    """Train with DDP; rank 1 has a NaN at step 3."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Upside())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tt.record(folder, model=model):
        for step in range(5):
            model.module.where = where if rank == 1 and step == 3 else ""
            optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_gradients_that_all_ranks_share_come_after_what_one_rank_did(
    tmp_path: Path, where: str
) -> None:
    said(run_ranks(2, train_together, str(tmp_path / "run"), where))
    found = tt.first_nonfinite(tmp_path / "run")
    assert found is not None
    (finding,) = tt.health(tmp_path / "run", select=["nonfinite"])
    assert finding.sites == (found.name,)
    assert (finding.first_step, finding.rank) == (3, found.rank)
    wanted = ("activation/(root)", 1) if where == "forward" else ("gradient/middle.bias", 0)
    assert (found.name, found.rank) == wanted


def test_a_missing_and_a_late_rank_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    for rank in (0, 1, 2, 4, 7):
        monkeypatch.setenv("RANK", str(rank))
        with tt.record(tmp_path / "run") as run:
            for _ in range(20 if rank == 2 else 100):
                run.log("loss", 0.5)
                run.step()
    text = tensortap("show", "run", folder=tmp_path, COLUMNS="200").stdout
    assert "ranks 3, 5, 6 have no file; the job had 8 ranks" in text
    assert "rank 2 is late: the last step is 19, of others 99" in text
    assert "ranks 0 to 2, 4, 7" in text


def test_ranks_that_a_resumed_run_has_no_more_are_not_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for world, resume in ((4, False), (2, True)):
        monkeypatch.setenv("WORLD_SIZE", str(world))
        for rank in range(world):
            monkeypatch.setenv("RANK", str(rank))
            with tt.record(tmp_path / "run", resume=resume) as run:
                for _ in range(40):
                    run.log("loss", 0.5)
                    run.step()
    text = tensortap("show", "run", folder=tmp_path, COLUMNS="200").stdout
    assert "ranks 2, 3 left, the last step is 39: the run went on with 2 ranks" in text
    assert "late" not in text


def test_explain_names_the_rank_and_a_loss_that_is_not_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        with tt.record(tmp_path / "run") as run:
            for step in range(30):
                run.tensor("loss/here", torch.tensor([math.nan if step > 9 and rank else 0.5]))
                run.step()
    text = tensortap("explain", "run", folder=tmp_path).stdout
    assert "1. error nonfinite: rank 1: loss/here" in text


def record_some(rank: int, world: int, folder: str, options: dict[str, Any]) -> list[Any]:
    model: Any = nn.parallel.DistributedDataParallel(Upside())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tt.record(folder, model=model, health="stop", black_box=4, **options) as run:
        watched = tt.watch(model.module, name="again")
        for _ in range(3):
            model(run.batch(torch.ones(3, 2))).sum().backward()
            run.log({"loss": 0.5})
            run.tensor("x", torch.ones(2))
            optimizer.step()
            optimizer.zero_grad()
        run.step()
        watched.remove()
        return [run.is_idle, bool(model.module.last.weight._post_accumulate_grad_hooks)]


@pytest.mark.parametrize(
    ("options", "recorded"),
    [
        ({"only_ranks": "0,2-3"}, [0, 2, 3]),
        ({"only_ranks": [1]}, [1]),
        ({"sample_ranks": 2}, [0, 2]),
        ({"only_ranks": "1-3", "sample_ranks": 2}, [1, 2]),
    ],
)
def test_ranks_that_were_not_chosen_record_nothing_and_are_not_missed(
    tmp_path: Path, options: dict[str, Any], recorded: list[int]
) -> None:
    found = said(run_ranks(4, record_some, str(tmp_path / "run"), options))
    assert found == [[rank not in recorded, rank in recorded] for rank in range(4)]
    assert tt.open(tmp_path / "run").ranks == recorded
    text = tensortap("show", "run", folder=tmp_path, COLUMNS="200").stdout
    assert "have no file" not in text
    if recorded == [0, 2, 3]:
        assert "rank 1 did not record: 0,2-3 only were to" in text


@pytest.mark.parametrize("wrong", ["", "1-", "a", "1,,2", [-1], ["1"]])
def test_ranks_that_cannot_be_read_are_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(ValueError, match="0-7,12"):
        tt.record(tmp_path / "run", only_ranks=wrong)


def test_the_command_records_chosen_ranks_only(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""
    )
    words = ("run", "-o", "run", "--nproc", "3", "--only-ranks", "0-1", "train.py")
    done = tensortap(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert tt.open(tmp_path / "run").ranks == [0, 1]
    done = tensortap("run", "--only-ranks", "0-", "train.py", folder=tmp_path)
    assert done.returncode == 2
    assert "0-7,12" in done.stderr


ELASTIC = r"""
import os, sys, time
import torch

rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    out = model(torch.ones(1, 4)).square().mean()
    if attempt == 0 and step == 3:  # rank 1 fails, rank 0 is in the step after
        time.sleep(1)
        sys.exit(5) if rank == 1 else time.sleep(300)
    out.backward()
    optimizer.step()
    optimizer.zero_grad()
os.write(1, f"rank {rank} ends at attempt {attempt}\n".encode())
"""


def test_ranks_that_torchrun_starts_again_go_on_with_their_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ELASTIC)
    words = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1")
    done = tensortap("run", "-o", "run", "-m", *words, "train.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {i} ends at attempt 1" for i in (0, 1)]
    run = tt.open(tmp_path / "run")
    steps = [run.series("parameter/weight", rank=rank)[0].tolist() for rank in (0, 1)]
    assert steps[0] == steps[1]  # both go on at the same step
    assert steps[0][:3] == [0, 1, 2]
    assert len(steps[0]) == 7
    assert steps[0] == sorted(set(steps[0]))
