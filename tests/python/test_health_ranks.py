"""Rules see the whole tensors of a job of many ranks, and ranks where they compare them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import tensortap
from forged import BATCH, DIGEST, REPLICA, SHARD, STATS, UNKNOWN, Site, Values, write_job
from ranks import run_ranks, said

import tensortap as tt

RANKS, STEPS = 8, 30


def noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape or (8, 8)).astype(np.float32)


def weight(rank: int, step: int) -> np.ndarray:
    return noise(1) * (1 + step / 100)


def shared(name: str, values: Values) -> Site:
    return Site(name, (REPLICA,), values, (8, 8))


def healthy(*more: Site) -> list[Site]:
    """Return the sites of a data-parallel training without a fault."""
    return [
        shared("parameter/fc.weight", weight),
        shared("gradient/fc.weight", lambda rank, step: noise(step)),
        Site("activation/fc", (BATCH,), lambda rank, step: noise(100 * step + rank)),
        Site("loss/train.py:1", (BATCH,), lambda rank, step: np.float32(2 / (1 + step / 10))),
        *more,
    ]


def nudge(tensor: np.ndarray) -> np.ndarray:
    """Move one element by one unit in the last place."""
    moved = tensor.copy()
    moved[3, 3] = np.nextafter(moved[3, 3], np.float32(9))
    return moved


def test_rules_see_the_whole_tensor_once(tmp_path: Path) -> None:
    """Seven ranks hold rows of classes that never occur: their gradients are almost nothing."""

    def part(rank: int, step: int) -> np.ndarray:
        return noise(step, 1, 8) * (1e-9 if rank else 1)

    sites = [
        *healthy(),
        Site(
            "parameter/head.weight", (SHARD,), lambda rank, step: noise(rank, 1, 8) + step, (8, 8)
        ),
        Site("gradient/head.weight", (SHARD,), part, (8, 8)),
    ]
    run = write_job(tmp_path / "run", (RANKS,), sites, STEPS)
    assert list(tt.health(run)) == []
    alone = tensortap("health", "run", "--rank", "3", folder=tmp_path).stdout
    assert "head.weight: the gradient has almost vanished" in alone


def test_a_fault_of_the_whole_is_one_finding_without_a_rank(tmp_path: Path) -> None:
    grown = Site("gradient/x", (SHARD,), lambda rank, step: noise(step, 1, 8), (8, 8))
    nan = Site(
        "activation/bad",
        (BATCH,),
        lambda rank, step: noise(step) * (np.nan if (rank, step) == (5, 9) else 1),
    )
    [one] = tt.health(write_job(tmp_path / "run", (4, 2), [*_in_two(healthy(grown, nan))], STEPS))
    assert (one.rule, one.rank, one.sites) == ("nonfinite", 5, ("activation/bad",))
    shown = tensortap("nan", "run", folder=tmp_path).stdout
    assert "rank 5" in shown
    assert "dp 2, tp 1" in shown


def _in_two(sites: list[Site]) -> list[Site]:
    """Place the sites on a mesh of two dimensions, the second of replicas."""
    return [Site(s.name, (*s.spreads, REPLICA), s.values, s.shape) for s in sites]


def test_sites_that_cannot_be_joined_are_not_called_healthy(tmp_path: Path) -> None:
    odd = Site("activation/odd", (UNKNOWN,), lambda rank, step: noise(rank + step))
    found = tt.health(write_job(tmp_path / "run", (2,), healthy(odd), STEPS))
    assert "1 site not looked at: the ranks' parts could not be joined" in found.verdict
    assert "healthy" not in found.verdict


def test_a_run_without_placements_is_judged_rank_by_rank_and_says_so(tmp_path: Path) -> None:
    write_job(tmp_path / "run", (2,), [Site("parameter/w", (), weight)], STEPS)
    assert "each rank was looked at alone" in tensortap("health", "run", folder=tmp_path).stdout


@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("rank", [0, 6])
def test_a_replica_that_is_one_unit_off_is_named(tmp_path: Path, first: int, rank: int) -> None:
    def drifted(one: int, step: int) -> np.ndarray:
        return nudge(weight(one, step)) if one == rank and step >= first else weight(one, step)

    sites = healthy(shared("parameter/up.weight", drifted))
    run = write_job(tmp_path / "run", (RANKS,), sites, STEPS, STATS | DIGEST)
    [one] = tt.health(run)
    assert (one.rule, one.severity, one.rank) == ("ranks-differ", "error", rank)
    assert (one.sites, one.first_step) == (("parameter/up.weight",), first)
    assert f"rank {rank} differs from 7 others" in one.sentence
    assert "apart" in one.sentence or "statistics are equal" in one.sentence
    assert ("broadcast" in one.remedy) == (first == 0)


def test_without_digests_sums_tell(tmp_path: Path) -> None:
    def drifted(rank: int, step: int) -> np.ndarray:
        return weight(rank, step) * (1.01 if rank == 2 and step >= 7 else 1)

    sites = healthy(shared("gradient/up.weight", drifted))
    [one] = tt.health(write_job(tmp_path / "run", (RANKS,), sites, STEPS))
    assert (one.rule, one.rank, one.first_step) == ("ranks-differ", 2, 7)
    assert "0.0099" in one.sentence


def test_of_two_replicas_nobody_is_right(tmp_path: Path) -> None:
    sites = healthy(shared("parameter/up.weight", lambda rank, step: noise(rank) + step))
    [one] = tt.health(write_job(tmp_path / "run", (2,), sites, STEPS))
    assert "ranks 0, 1 ought to hold the same and differ" in one.sentence
    assert one.ranks == (0, 1)


def test_replicas_are_those_of_one_part(tmp_path: Path) -> None:
    """Sharded over tp and replicated over dp: parts differ, their replicas must not."""

    def part(rank: int, step: int) -> np.ndarray:
        return noise(rank % 2, 4, 8) * (1 + step) * (1 + 1e-3 * (rank == 5 and step > 3))

    sites = [
        *_in_two(healthy()),
        Site("parameter/up.weight", (REPLICA, SHARD), part, (8, 8)),
    ]
    run = write_job(tmp_path / "run", (4, 2), sites, STEPS)
    [one] = tt.health(run)
    assert (one.rule, one.rank, one.first_step) == ("ranks-differ", 5, 4)
    assert "differs from 3 others" in one.sentence


@pytest.mark.parametrize("seed", range(4))
def test_healthy_replicas_have_no_finding(tmp_path: Path, seed: int) -> None:
    sites = healthy(shared("parameter/up.weight", lambda rank, step: noise(seed) + step))
    products = STATS | DIGEST if seed % 2 else STATS
    assert list(tt.health(write_job(tmp_path / "run", (RANKS,), sites, STEPS, products))) == []


def test_a_rank_that_was_killed_is_compared_as_far_as_it_came(tmp_path: Path) -> None:
    run = write_job(tmp_path / "run", (3,), healthy(), STEPS)
    (run / "rank1.tap").write_bytes((run / "rank1.tap").read_bytes()[:-20_000])
    assert [one.rule for one in tt.health(run)] == []


def train(rank: int, world: int, folder: str, odd: int) -> None:
    """Train with DDP; from step 5 on rank *odd* has one weight one unit in the last place off."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tt.record(folder, model=model, keep="stats,digest"):
        for step in range(12):
            if rank == odd and step == 5:
                with torch.no_grad():
                    one = model.module[0].weight[3, 3]
                    one.copy_(torch.nextafter(one, one + 1))
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()


@pytest.mark.parametrize("odd", [-1, 1])
def test_real_replicas_are_compared_bit_by_bit(tmp_path: Path, odd: int) -> None:
    said(run_ranks(3, train, str(tmp_path / "run"), odd))
    found = tt.health(tmp_path / "run", select=["ranks-differ"])
    if odd < 0:
        assert list(found) == []
        return
    [one] = found
    assert (one.rank, one.first_step) == (1, 5)
    assert one.sites == ("parameter/0.weight",)
