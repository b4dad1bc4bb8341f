"""Commands and the page show a job of many ranks as a run of one, or one rank of it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import tensortap
from forged import BATCH, REPLICA, SHARD, Site, write_job
from paged import Opened, browser, write_page

RNG = np.random.default_rng(0)
WHOLE = RNG.normal(size=(8, 6)).astype(np.float32)
STEPS = 24


def loss(rank: int, step: int) -> np.ndarray:
    return np.float32(1 + 1 / (step + 1) + 9 * (rank == 5 and step > 15))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a job of 4 x 2 ranks: a weight sharded over tp, a batch split over dp."""

    def part(rank: int, step: int) -> np.ndarray:
        return np.split(WHOLE * (1 + step), 2)[rank % 2]

    sites = [
        Site("parameter/up.weight", (REPLICA, SHARD), part, WHOLE.shape),
        Site("activation/up", (BATCH, REPLICA), lambda rank, step: WHOLE * (rank // 2)),
        Site("loss/train.py:3", (BATCH, REPLICA), loss),
    ]
    return write_job(tmp_path_factory.mktemp("runs") / "run", (4, 2), sites, STEPS)


def rms(step: int) -> float:
    return float(np.sqrt(np.mean(np.square(WHOLE * (1 + step), dtype=np.float64))))


def test_csv_has_one_row_a_step(run: Path, tmp_path: Path) -> None:
    tensortap("export", run, "parameter/*", "--to", "csv", "-o", "a.csv", folder=tmp_path)
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert [int(row["step"]) for row in rows] == list(range(STEPS))
    assert {row["rank"] for row in rows} == {"-1"}
    assert [int(row["count"]) for row in rows] == [WHOLE.size] * STEPS
    tensortap(
        *("export", run, "parameter/*", "--to", "csv", "-o", "b.csv", "--rank", "3"),
        folder=tmp_path,
    )
    rows = list(csv.DictReader((tmp_path / "b.csv").open()))
    assert {(row["rank"], row["count"]) for row in rows} == {("3", str(WHOLE.size // 2))}


def test_sqlite_has_one_row_a_step(run: Path, tmp_path: Path) -> None:
    done = tensortap("export", run, "--to", "sqlite", "-o", "a.db", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = sqlite3.connect(tmp_path / "a.db").execute(
        "SELECT rank, count(*) FROM points WHERE site = 'parameter/up.weight' GROUP BY rank"
    )
    assert found.fetchall() == [(-1, STEPS)]


def test_top_shows_the_whole_job(run: Path, tmp_path: Path) -> None:
    told = json.loads(tensortap("top", run, "--json", folder=tmp_path).stdout)
    latest = {one["site"]: one["latest"] for one in told["sites"]}
    assert latest["parameter/up.weight"]["count"] == WHOLE.size
    assert latest["parameter/up.weight"]["rms"] == pytest.approx(rms(STEPS - 1), rel=1e-6)
    told = json.loads(tensortap("top", run, "--json", "--rank", "1", folder=tmp_path).stdout)
    latest = {one["site"]: one["latest"] for one in told["sites"]}
    assert latest["parameter/up.weight"]["count"] == WHOLE.size // 2


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.mark.parametrize("width", [1200, 400])
def test_the_page_shows_the_job_and_each_rank_of_a_site(
    chromium: Any, run: Path, tmp_path: Path, width: int
) -> None:
    path = write_page(run, out=tmp_path / "page.html")
    page = Opened(chromium, path, viewport={"width": width, "height": 900})
    text = page.text("#ranks")
    assert "loss/train.py:3: value on each rank" in text
    assert "Rank 5 (dp 2 tp 1) differs most" in text
    page.tab.select_option("#ranks select", label="by tp")
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_the_page_of_one_rank_has_its_own_numbers(run: Path, tmp_path: Path) -> None:
    done = tensortap("report", run, "--rank", "2", "-o", "two.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"ranks":[2]' in (tmp_path / "two.html").read_text()
