"""Runs of many ranks read as runs of one: series, statistics, histograms, norms.

The ranks are made in one process: what each would have written is known.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pytest

import tensortap as tt
from tensortap import _core

REPLICA, SHARD, PARTIAL, BATCH = 0, 1, 2, 3
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
