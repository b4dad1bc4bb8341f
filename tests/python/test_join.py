"""Runs of many ranks read as runs of one: series, statistics, histograms, norms.

The ranks are made in one process: what each would have written is known.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pytest
from forged import BATCH, HIST, REPLICA, SHARD, STATS, Site, write_job

import tensortap as tt
from tensortap import _core

RNG = np.random.default_rng(0)
WHOLE = RNG.normal(size=(10, 6)).astype(np.float32)


def write(folder: Path, parts: list[np.ndarray], spread: int, name: str = "parameter/w") -> Path:
    """Write a file for each rank, with its part of a tensor in two steps."""
    mesh = array("i", range(len(parts)))
    for rank, part in enumerate(parts):
        run = _core.Recorder(str(folder), rank=rank, products=2 | 8)  # stats and hist
        run.tensor(name, part)
        place = (spread, 0, 1, 0)
        mesh_id = run.mesh(("dp",), (len(parts),), (rank,), mesh)
        run.place(0, 0, mesh_id, 0, (place,), WHOLE.shape, ())
        run.step()
        run.tensor(name, 2 * part)
        run.close()
    return folder


def test_a_series_has_one_value_a_step(tmp_path: Path) -> None:
    run = tt.open(write(tmp_path / "run", np.array_split(WHOLE, 4), SHARD))
    steps, rms = run.series("parameter/w", "rms")
    expected = np.sqrt(np.mean(np.square(WHOLE, dtype=np.float64)))
    assert steps.tolist() == [0, 1]
    assert rms == pytest.approx([expected, 2 * expected], rel=1e-6)
    assert len(run.series("parameter/w", "rms", rank=2)[0]) == 2
    assert run.stats("parameter/w", 0).count == WHOLE.size
    assert run.stats("parameter/w", 0, rank=0).count == 18
    joined = run.joined("parameter/w")
    assert joined is not None
    assert (joined.ranks, joined.parts, joined.points, joined.incomplete) == (4, 4, 2, 0)


def test_joined_histograms_are_those_of_the_whole(tmp_path: Path) -> None:
    run = tt.open(write(tmp_path / "run", np.array_split(WHOLE, 3), SHARD))
    hist = tt.histogram(WHOLE)
    expected = [(*edges, count) for edges, count in zip(hist.edges, hist.counts, strict=True)]
    assert [tuple(b) for b in run.histogram("parameter/w", 0)] == expected


def test_a_missing_rank_leaves_no_number_that_is_a_part(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", np.array_split(WHOLE, 4), SHARD)
    (folder / "rank2.tap").unlink()
    run = tt.open(folder)
    assert len(run.series("parameter/w", "rms")[0]) == 0
    joined = run.joined("parameter/w")
    assert joined is not None
    assert (joined.points, joined.incomplete, joined.found, joined.parts) == (0, 2, 3, 4)


def test_a_run_without_placements_is_read_as_before(tmp_path: Path) -> None:
    for rank in range(2):
        run = _core.Recorder(str(tmp_path / "run"), rank=rank)
        run.log("x", float(rank))
        run.close()
    opened = tt.open(tmp_path / "run")
    assert opened.series("x")[0].tolist() == [0, 0]
    assert opened.joined("x") is None


@pytest.mark.parametrize("spreads", [(SHARD, SHARD), (BATCH, SHARD), (BATCH, REPLICA)])
@pytest.mark.parametrize("is_uneven", [False, True])
def test_whole_series_are_joined_as_single_points_are(
    tmp_path: Path, spreads: tuple[int, int], is_uneven: bool
) -> None:
    """Histograms are joined point by point; the statistics beside them are the same."""
    split = np.array_split(np.arange(10), 6) if is_uneven else np.split(np.arange(12), 6)

    def part(rank: int, step: int) -> np.ndarray:
        seed = rank // 2 if spreads[1] == REPLICA else rank
        rows = split[seed] if spreads[0] == SHARD else split[seed % 2]
        return (
            np.random.default_rng(100 * step + seed).normal(size=(len(rows), 4)).astype(np.float32)
        )

    shape = (10 if is_uneven else 12, 4) if spreads[0] == SHARD else (4, 4)
    site = Site("activation/x", spreads, part, shape)
    runs = [
        tt.open(write_job(tmp_path / name, (3, 2), [site], 5, products))
        for name, products in (("series", STATS), ("points", STATS | HIST))
    ]
    for field in (
        "count",
        "min",
        "max",
        "absmax",
        "sum",
        "mean",
        "std",
        "l1",
        "l2",
        "rms",
        "zeros",
    ):
        (steps, values), (expected_steps, expected) = (one.series(site.name, field) for one in runs)
        assert len(steps) == 5
        assert (steps.tolist(), values.tolist()) == (expected_steps.tolist(), expected.tolist())
    shapes = [one.stats(site.name, 2).shape for one in runs]
    assert shapes[0] == shapes[1]


def test_a_series_of_more_points_than_a_chunk_holds_is_whole(tmp_path: Path) -> None:
    points, mesh = 70_000, array("i", range(2))
    for rank in range(2):
        run = _core.Recorder(str(tmp_path / "run"), rank=rank, products=2)
        run.tensor("parameter/w", WHOLE[5 * rank : 5 * rank + 5])
        mesh_id = run.mesh(("dp",), (2,), (rank,), mesh)
        run.place(0, 0, mesh_id, 0, ((SHARD, 0, 1, 0),), WHOLE.shape, ())
        for _ in range(points - 1):
            run.step()
            run.tensor("parameter/w", WHOLE[5 * rank : 5 * rank + 5])
        run.close()
    joined = tt.open(tmp_path / "run").joined("parameter/w")
    assert joined is not None
    assert (joined.points, joined.incomplete) == (points, 0)


def test_a_stage_of_a_pipeline_is_joined_from_its_own_ranks(tmp_path: Path) -> None:
    """Four ranks, two stages of two: each has its own layers and a mesh of its own ranks."""
    for rank in range(4):
        stage, part = divmod(rank, 2)
        run = _core.Recorder(str(tmp_path / "run"), rank=rank, products=2)
        run.tensor(f"parameter/layers.{stage}", WHOLE[5 * part : 5 * part + 5])
        ranks = array("i", [2 * stage, 2 * stage + 1])
        mesh = run.mesh(("dp",), (2,), (part,), ranks)
        run.place(0, 0, mesh, 0, ((SHARD, 0, 1, 0),), WHOLE.shape, ())
        if rank == 3:
            run.tensor("loss/train.py:1", np.float32(2.5))
        run.close()
    opened = tt.open(tmp_path / "run")
    for stage in range(2):
        joined = opened.joined(f"parameter/layers.{stage}")
        assert joined is not None
        assert (joined.ranks, joined.parts, joined.points) == (2, 2, 1)
        assert opened.stats(f"parameter/layers.{stage}", 0).count == WHOLE.size
    assert opened.series("loss/train.py:1", "mean")[1].tolist() == [2.5]
