"""Runs of every release are read for ever, with the numbers that torch gave at the time."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tensortap as tt

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
RELEASES = sorted(path.parent.name for path in GOLDEN.glob("*/expected.json"))
CASES = [
    (release, name)
    for release in RELEASES
    for name in json.loads((GOLDEN / release / "expected.json").read_text())
]


def place(release: str, name: str) -> str:
    """Return what opens a run: its folder, or the URL of one in segments."""
    folder = GOLDEN / release / name
    if not list(folder.glob("*/*.seg")):
        return str(folder)
    pytest.importorskip("fsspec")
    return folder.as_uri()


def expected_of(release: str, name: str) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((GOLDEN / release / "expected.json").read_text())[name]
    return expected


def load(release: str, name: str) -> tuple[Any, dict[str, Any]]:
    return tt.open(place(release, name)), expected_of(release, name)


def having(name: str) -> list[str]:
    """Return the releases that wrote such a run."""
    return [release for release, each in CASES if each == name]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORTAP_CACHE", str(tmp_path / "cache"))


def same(found: float, wanted: float | None) -> bool:
    return wanted is None or math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-30)


def test_runs_of_every_release_are_there() -> None:
    assert RELEASES[:2] == ["0.1.0", "0.2.0"]
    assert len([name for release, name in CASES if release == "0.1.0"]) == 6
    assert len([name for release, name in CASES if release == "0.2.0"]) == 11


@pytest.mark.parametrize(("release", "name"), CASES)
def test_statistics_are_those_that_torch_computed(release: str, name: str) -> None:
    run, expected = load(release, name)
    assert expected["sites"]
    for site, points in expected["sites"].items():
        for step, wanted in points.items():
            if isinstance(wanted, float):  # a number that the program logged
                steps, values = run.series(site)
                assert values[list(steps).index(int(step))] == pytest.approx(wanted, nan_ok=True)
                continue
            stats = run.stats(site, int(step))
            assert stats.nan == wanted["nan"]
            assert stats.posinf + stats.neginf == wanted["inf"]
            assert stats.count == math.prod(wanted["shape"])
            assert same(stats.rms, wanted["rms"]), site
            if not wanted["dtype"].startswith("complex"):
                assert same(stats.min, wanted["min"])
                assert same(stats.max, wanted["max"])


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["training", "types"])
def test_values_are_the_same_bytes(release: str, name: str) -> None:
    pytest.importorskip("torch")
    import torch

    run, expected = load(release, name)
    seen = 0
    for site, points in expected["sites"].items():
        for step, wanted in points.items():
            if isinstance(wanted, dict):
                value = run.tensor(site, int(step))
                raw = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
                assert str(value.dtype) == f"torch.{wanted['dtype']}"
                assert hashlib.sha256(raw).hexdigest() == wanted["sha256"]
                seen += 1
    assert seen >= 16


@pytest.mark.parametrize(("release", "name"), CASES)
def test_the_run_is_whole_and_ended_as_it_did(release: str, name: str) -> None:
    run, expected = load(release, name)
    assert run.state == expected["state"]
    assert run.check().ok
    assert run.ranks == list(range(expected.get("ranks", 1)))
    assert run.info["tensortap"] == release


@pytest.mark.parametrize(
    ("release", "name"), [case for case in CASES if "origin" in expected_of(*case)]
)
def test_the_origin_of_an_overflow_is_found(release: str, name: str) -> None:
    run, expected = load(release, name)
    site, step = expected["origin"]
    origin = run.first_nonfinite
    assert (origin.name, origin.step) == (site, step)


@pytest.mark.parametrize(("release", "name"), CASES)
@pytest.mark.parametrize("command", ["show", "nan", "health", "check", "explain"])
def test_commands_answer(release: str, name: str, command: str) -> None:
    words = ["tensortap", command, place(release, name)]
    words += {"explain": [], "health": ["--format=json"]}.get(command, ["--json"])
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    if command != "explain":
        json.loads(done.stdout)


@pytest.mark.parametrize("release", having("whole"))
def test_parameters_of_ranks_are_those_of_one_process(release: str) -> None:
    ranks, whole = place(release, "ranks"), place(release, "whole")
    digests = [tt.open(run).placed_digest("parameter/0.weight", 0) for run in (ranks, whole)]
    assert digests[0] is not None
    assert digests[0] == digests[1]


@pytest.mark.parametrize("release", having("settings"))
def test_settings_are_those_of_the_program(release: str) -> None:
    run, expected = load(release, "settings")
    assert expected["settings"].items() <= run.settings.items()


@pytest.mark.parametrize("release", having("tokens"))
def test_tokens_have_their_norms_and_are_paired(release: str) -> None:
    run, expected = load(release, "tokens")
    found = run.tokens("activation/1", 0)[:, 0].tolist()
    assert found == pytest.approx(expected["norms"], rel=1e-6)
    pytest.importorskip("torch")
    folder = place(release, "tokens")
    assert tt.diff(folder, folder, align="tokens").tokens == expected["tokens"]


@pytest.mark.parametrize("release", having("thinned"))
def test_a_thinned_run_says_so_and_has_the_steps_before_a_nan(release: str) -> None:
    run, expected = load(release, "thinned")
    steps = run.series("x", "mean")[0].tolist()
    _, origin = expected["origin"]
    assert set(range(origin - 30, origin + 1)) <= set(steps)
    assert len(steps) < expected["steps"] / 2
    assert run.strides[0][1] > 1
