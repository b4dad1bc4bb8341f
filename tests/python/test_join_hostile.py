"""Jobs whose ranks do not fit together: the joined run claims no more than all of them have."""

from __future__ import annotations

import os
import signal
from array import array
from pathlib import Path

import numpy as np
import pytest
from commands import tensortap
from forged import BATCH, REPLICA, SHARD, Site, write_job

import tensortap as tt
from tensortap import _core

SHAPE = (8, 4)


def rows(rank: int, step: int) -> np.ndarray:
    """Return the rows of a rank of two."""
    whole = np.random.default_rng(step).normal(size=SHAPE).astype(np.float32)
    return whole[4 * rank : 4 * rank + 4]


def norm(step: int) -> float:
    return float(np.linalg.norm(np.concatenate([rows(0, step), rows(1, step)]).astype(np.float64)))


def open_rank(folder: Path, rank: int, *, disk: int = 0, is_placed: bool = True) -> _core.Recorder:
    """Open the file of a rank of two, with its part of one parameter."""
    run = _core.Recorder(str(folder), rank=rank, products=2, disk=disk)
    run.tensor("parameter/w", rows(rank, 0))
    if is_placed:
        mesh = run.mesh(("dp",), (2,), (rank,), array("i", range(2)))
        run.place(0, 0, mesh, 0, ((SHARD, 0, 1, 0),), SHAPE, ())
    return run


def write_steps(run: _core.Recorder, rank: int, steps: range) -> None:
    for step in steps:
        run.current_step = step
        run.tensor("parameter/w", rows(rank, step))
        if step % 64 == 0:
            run.flush()


@pytest.fixture(scope="module")
def thinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a job of which the second rank had less disk."""
    folder = tmp_path_factory.mktemp("thinned") / "run"
    for rank, disk in ((0, 0), (1, 150_000)):
        run = open_rank(folder, rank, disk=disk)
        write_steps(run, rank, range(1, 6000))
        run.close()
    return folder


def test_ranks_that_thin_at_different_strides_have_the_steps_of_all(thinned: Path) -> None:
    run = tt.open(thinned)
    own = [set(run.series("parameter/w", "l2", rank=rank)[0].tolist()) for rank in range(2)]
    assert len(own[1]) < len(own[0]) == 6000
    steps, norms = run.series("parameter/w", "l2")
    assert set(steps.tolist()) == own[0] & own[1]
    assert norms == pytest.approx([norm(step) for step in steps], rel=1e-6)
    joined = run.joined("parameter/w")
    assert joined is not None
    assert (joined.incomplete, joined.unknown) == (0, 0)


def test_a_job_of_which_one_rank_is_thinned_says_so(thinned: Path) -> None:
    shown = tensortap("show", "run", folder=thinned.parent).stdout
    strides = tt.open(thinned).strides
    assert strides
    assert f"thinned: every {strides[0][1]}" in shown
    assert f"step {strides[0][0]} on" in shown
    assert "missing" not in shown


def test_steps_that_a_thinned_rank_lacks_are_no_difference(thinned: Path) -> None:
    full = thinned.parent / "full"
    for rank in range(2):
        run = open_rank(full, rank)
        write_steps(run, rank, range(1, 6000))
        run.close()
    answer = tensortap("diff", "full", "run", folder=thinned.parent)
    assert answer.returncode == 0, answer.stdout
    assert "identical" in answer.stdout
    assert "only in" not in answer.stdout


def test_a_thinned_rank_does_not_hide_that_another_is_missing(
    thinned: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank1.tap").write_bytes((thinned / "rank1.tap").read_bytes())
    run = open_rank(folder, 0)
    run.close()  # ended after its first step
    opened = tt.open(folder)
    assert opened.series("parameter/w", "l2")[0].tolist() == [0]
    joined = opened.joined("parameter/w")
    assert joined is not None
    own = opened.series("parameter/w", "l2", rank=1)[0]
    assert joined.incomplete == len(own) - 1 > 100
    assert (joined.found, joined.parts) == (1, 2)


def test_a_rank_that_says_nothing_of_places_leaves_nothing_joined(tmp_path: Path) -> None:
    """A file of an older version beside a new one."""
    for rank in range(2):
        run = open_rank(tmp_path / "run", rank, is_placed=rank == 0)
        run.close()
    opened = tt.open(tmp_path / "run")
    assert len(opened.series("parameter/w", "l2")[0]) == 0
    joined = opened.joined("parameter/w")
    assert joined is not None
    assert (joined.points, joined.unknown) == (0, 1)
    answer = tensortap("show", "run", folder=tmp_path)
    assert answer.returncode == 0
    assert f"{np.linalg.norm(rows(0, 0)):.3g}" not in answer.stdout


def test_a_rank_that_was_killed_costs_only_the_steps_it_lacks(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    child = os.fork()
    if child == 0:
        run = open_rank(folder, 1)
        write_steps(run, 1, range(1, 65))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    run = open_rank(folder, 0)
    write_steps(run, 0, range(1, 100))
    run.close()
    opened = tt.open(folder)
    steps, norms = opened.series("parameter/w", "l2")
    assert steps.tolist() == list(range(65))
    assert norms == pytest.approx([norm(step) for step in steps], rel=1e-6)
    joined = opened.joined("parameter/w")
    assert joined is not None
    assert (joined.incomplete, joined.found, joined.parts) == (35, 1, 2)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3)])
def test_all_sites_at_once_are_joined_as_single_ones(
    tmp_path: Path, shape: tuple[int, int]
) -> None:
    """The rules ask for all sites: files are read side by side, several sites of each at once."""

    def values(seed: int, width: int) -> np.ndarray:
        found = np.random.default_rng(seed).normal(size=(2, width)).astype(np.float32)
        if seed % 5 == 0:
            found[0, 0] = np.nan
        if seed % 7 == 0:
            found[:] = np.inf
        return found

    def site(kind: str, i: int) -> Site:
        spreads, parts = {
            "gradient": ((SHARD, SHARD), 6),
            "parameter": ((REPLICA, SHARD), shape[1]),
            "activation": ((BATCH, BATCH), 6),
        }[kind]
        return Site(
            f"{kind}/layers.{i}",
            spreads,
            lambda rank, step: values(10_000 * i + 100 * step + rank % parts, 3 + i),
            () if kind == "activation" else (2 * parts, 3 + i),
        )

    kinds = ("gradient", "parameter", "activation")
    sites = [site(kind, i) for i in range(8) for kind in kinds]
    folder = write_job(tmp_path / "run", shape, sites, 40)
    once, together = tt.open(folder), tt.open(folder)
    together._select(None)[0].health(None, None, None, None)
    for one in sites:
        for field in ("count", "nan", "min", "max", "absmax", "sum", "mean", "std", "l1", "zeros"):
            steps, found = together.series(one.name, field)
            expected_steps, expected = once.series(one.name, field)
            assert len(steps) == 40
            assert steps.tolist() == expected_steps.tolist()
            assert np.array_equal(found, expected, equal_nan=True)


def test_parts_whose_order_is_not_that_of_the_ranks_are_joined(tmp_path: Path) -> None:
    """A mesh may number its ranks in any order; sums are in that of the mesh."""
    order = [4, 1, 5, 0, 3, 2]  # of the places in the mesh: which rank is there
    parts = [np.full((1, 4), 10.0**place, np.float32) for place in range(6)]
    for rank in range(6):
        run = _core.Recorder(str(tmp_path / "run"), rank=rank, products=2)
        mesh = run.mesh(("dp",), (6,), (order.index(rank),), array("i", order))
        for step in range(3):
            run.current_step = step
            for number, name in enumerate(("parameter/a", "parameter/b")):
                run.tensor(name, parts[order.index(rank)])
                if step == 0:
                    run.place(number, 0, mesh, 0, ((SHARD, 0, 1, 0),), (6, 4), ())
        run.close()
    opened = tt.open(tmp_path / "run")
    opened._select(None)[0].health(None, None, None, None)
    for name in ("parameter/a", "parameter/b"):
        assert opened.series(name, "sum")[1].tolist() == [4 * 111_111.0] * 3
        assert opened.series(name, "max")[1].tolist() == [1e5] * 3
