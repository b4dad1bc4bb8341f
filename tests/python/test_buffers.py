"""Buffers of models in runs: what is recorded of them, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from commands import tensortap  # noqa: E402
from forged import DIGEST, REPLICA, STATS, Site, write_job  # noqa: E402
from ranks import run_ranks, said  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)
        self.register_buffer("mask", torch.full((4,), float("-inf")), persistent=False)
        self.register_buffer("table", torch.arange(5.0))
        self.register_buffer("nothing", None)

    def forward(self, x: Any) -> Any:
        x = self.norm(self.conv(x)).relu().mean((2, 3))
        return self.head(x) + self.mask.isinf() * self.table[:4]


def train(rank: int, world: int, folder: str, options: dict[str, Any]) -> list[Any]:
    torch.manual_seed(0)
    inner = Net()
    model: Any = nn.parallel.DistributedDataParallel(inner) if world > 1 else inner
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    means = []
    torch.manual_seed(rank)
    with tt.record(folder, model=model, **options):
        for step in range(6):
            if step == 4:
                inner.table.mul_(2)
            nn.functional.cross_entropy(model(torch.randn(4, 3, 6, 6)), torch.arange(4)).backward()
            means.append(inner.norm.running_mean.clone())
            optimizer.step()
            optimizer.zero_grad()
    return means


def test_running_statistics_are_recorded_as_they_are_when_the_optimizer_steps(
    tmp_path: Path,
) -> None:
    means = train(0, 1, str(tmp_path / "run"), {})
    run = tt.open(tmp_path / "run")
    assert run.names("buffer/*") == [
        "buffer/mask",
        "buffer/table",
        "buffer/norm.running_mean",
        "buffer/norm.running_var",
    ]
    steps, recorded = run.series("buffer/norm.running_mean", "l2")
    assert steps.tolist() == list(range(6))
    assert recorded == pytest.approx([one.norm().item() for one in means], rel=1e-6)


def test_a_buffer_that_does_not_change_is_recorded_once(tmp_path: Path) -> None:
    train(0, 1, str(tmp_path / "run"), {})
    run = tt.open(tmp_path / "run")
    assert run.series("buffer/table", "max")[0].tolist() == [0, 4]
    assert run.series("buffer/table", "max")[1].tolist() == [4, 8]
    assert run.series("buffer/mask", "neginf")[1].tolist() == [4]


def test_a_mask_is_no_fault_and_the_command_shows_buffers(tmp_path: Path) -> None:
    train(0, 1, str(tmp_path / "run"), {})
    assert not [one for one in tt.health(tmp_path / "run") if "buffer/" in str(one)]
    assert tensortap("nan", "run", folder=tmp_path).returncode == 0
    assert "running_var" in tensortap("show", "run", "buffer/*", folder=tmp_path).stdout


def test_globs_choose_buffers_as_they_choose_parameters(tmp_path: Path) -> None:
    train(0, 1, str(tmp_path / "none"), {"only": "parameter/*"})
    train(0, 1, str(tmp_path / "some"), {"exclude": "*running_mean"})
    assert tt.open(tmp_path / "none").names("buffer/*") == []
    assert "buffer/norm.running_mean" not in tt.open(tmp_path / "some").names("*")


@needs_sharding_on_cpu
def test_ranks_that_have_their_own_running_statistics_are_told_so_and_not_called_unequal(
    tmp_path: Path,
) -> None:
    said(run_ranks(2, train, str(tmp_path / "run"), {"keep": "stats,digest"}))
    run = tt.open(tmp_path / "run")
    assert any("its own running statistics" in str(note) for note in run.notes)
    joined: Any = run.joined("buffer/norm.running_mean")
    assert (joined.points, joined.unknown) == (0, 6)
    assert len(run.series("buffer/norm.running_mean", "l2", rank=1)[0]) == 6
    table: Any = run.joined("buffer/table")
    assert (table.points, table.unequal) == (2, 0)
    assert run.series("buffer/table", "max")[1].tolist() == [4, 8]
    assert not [one for one in tt.health(tmp_path / "run") if one.rule == "ranks-differ"]


def test_a_buffer_of_one_rank_that_ought_to_be_the_others_is_named(tmp_path: Path) -> None:
    """SyncBatchNorm does not run on a CPU: the files of four ranks are made."""

    def values(rank: int, step: int) -> np.ndarray:
        tensor = np.arange(8, dtype=np.float32) + step
        if rank == 2 and step >= 3:
            tensor[1] = np.nextafter(tensor[1], np.float32(9))
        return tensor

    site = Site("buffer/norm.running_mean", (REPLICA,), values, (8,))
    write_job(tmp_path / "run", (4,), [site], 6, STATS | DIGEST)
    found = [one for one in tt.health(tmp_path / "run") if one.rule == "ranks-differ"]
    assert len(found) == 1
    assert "running_mean" in str(found[0])
    assert "rank 2 differs from 3 others" in str(found[0])
