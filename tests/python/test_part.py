"""tt.diff and tt.first_nonfinite agree with the program, and with how the runs were made."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answer

import tensortap as tt


def make(path: Path, *, scale: dict[str, float] | None = None, bad: int = -1) -> Path:
    """Record six steps of three layers; *scale* multiplies what a layer puts out."""
    random = np.random.default_rng(0)
    with tt.record(path) as run:
        for step in range(6):
            for layer in ("a", "b", "c"):
                values = random.standard_normal((8, 16), dtype=np.float32)
                values *= np.float32((scale or {}).get(layer, 1.0))
                if step == bad and layer != "a":
                    values[0, : 1 if layer == "b" else 9] = np.nan
                run.tensor(f"activation/{layer}", values)
            run.log("loss", 1.0 / (step + 1))
            run.step()
    return path


def test_the_origin_is_the_first_that_was_recorded(tmp_path: Path) -> None:
    run = tt.open(make(tmp_path / "run", bad=4))
    found = tt.first_nonfinite(run)
    assert found is not None
    assert (found.name, found.step, found.birth, found.reached) == ("activation/b", 4, "forward", 2)
    assert found.stats is not None
    assert found.stats.nan == 1
    assert [(fed.role, fed.name, fed.step) for fed in found.fed_by] == [
        ("before", "activation/a", 4),
        ("previous", "activation/b", 3),
    ]
    assert run.first_nonfinite == found


def test_allowed_sites_are_left_out(tmp_path: Path) -> None:
    run = make(tmp_path / "run", bad=4)
    found = tt.first_nonfinite(run, allow="*/b")
    assert found is not None
    assert found.name == "activation/c"
    assert tt.first_nonfinite(run, allow="*") is None
    assert tt.first_nonfinite(make(tmp_path / "fine")) is None


def test_the_program_gives_the_same_origin(tmp_path: Path) -> None:
    found = tt.first_nonfinite(make(tmp_path / "run", bad=2))
    said = answer("nan", "run", folder=tmp_path)
    assert found is not None
    assert said["site"] == found.name
    assert said["point"]["step"] == found.step
    assert (said["order"], said["of"]) == (found.order, found.of)
    assert [fed["site"] for fed in said["fed_by"]] == [fed.name for fed in found.fed_by]


def test_runs_of_the_same_numbers_are_identical(tmp_path: Path) -> None:
    found = tt.diff(make(tmp_path / "a"), make(tmp_path / "b"))
    assert not found
    assert (found.verdict, found.first) == ("identical", None)
    assert sum(site.points for site in found.sites) == 24


@pytest.mark.parametrize(("scale", "verdict"), [(1 + 2e-7, "noise"), (1.01, "differs")])
def test_a_layer_that_is_off_is_judged_by_how_much(
    tmp_path: Path, scale: float, verdict: str
) -> None:
    found = tt.diff(make(tmp_path / "a"), make(tmp_path / "b", scale={"b": scale}))
    assert found.verdict == verdict
    assert bool(found) == (verdict == "differs")
    assert [site.name for site in found.worst()] == ["activation/b"]
    assert math.isclose(found.worst()[0].deviation, scale - 1, rel_tol=0.5)


def test_the_program_gives_the_same_diff(tmp_path: Path) -> None:
    found = tt.diff(make(tmp_path / "a"), make(tmp_path / "b", scale={"c": 0.9}))
    said = answer("diff", "a", "b", folder=tmp_path)
    assert found.first is not None
    assert (said["verdict"], said["first"]) == (found.verdict, found.first.name)
    keys: dict[str, Any] = {site["site"]: site for site in said["sites"]}
    assert keys["activation/c"]["deviation"] == found.first.deviation
    assert keys["activation/c"]["floor"] == found.first.floor


def test_steps_tolerances_and_names_narrow_it(tmp_path: Path) -> None:
    a, b = make(tmp_path / "a"), make(tmp_path / "b", scale={"c": 0.9})
    assert tt.diff(a, b, only="activation/a").verdict == "identical"
    assert tt.diff(a, b, rtol=0.2, atol=1e-6).verdict == "noise"
    assert sum(site.points for site in tt.diff(a, b, steps=(2, 3)).sites) == 8
    with pytest.raises(ValueError, match="rtol must be"):
        tt.diff(a, b, rtol=-1.0)
    with pytest.raises(Exception, match="no site matches 'x'"):
        tt.diff(a, b, only="x")


def test_changed_names_are_found_out(tmp_path: Path) -> None:
    with tt.record(tmp_path / "a") as run:
        run.tensor("activation/layers.0", np.ones(3))
        run.tensor("activation/layers.1", np.ones(3))
    with tt.record(tmp_path / "b") as run:
        run.tensor("activation/blocks.0", np.ones(3))
        run.tensor("activation/blocks.1", np.ones(3))
    found = tt.diff(tmp_path / "a", tmp_path / "b")
    assert found.renamed == ("layers", "blocks")
    assert [site.verdict for site in found.sites] == ["identical", "identical"]


def test_a_run_can_be_compared_with_itself_and_stays_open(tmp_path: Path) -> None:
    run = tt.open(make(tmp_path / "a"))
    assert tt.diff(run, run).verdict == "identical"
    assert run.names()
