"""Small trainings, healthy and with a planted fault, recorded from outside."""

from __future__ import annotations

import os
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from commands import tensortap

import tensortap as tt

pytest.importorskip("torch")

ZOO = Path(__file__).parents[1] / "zoo"
sys.path.append(str(ZOO))
from expected import FAULTS, LATER  # noqa: E402
from pairs.expected import PAIRS  # noqa: E402

MISSED = {"updates_too_large"}

pytestmark = pytest.mark.heavy


def programs(kind: str) -> list[str]:
    return sorted(path.stem for path in ZOO.glob(f"{kind}_*.py"))


def test_every_faulty_program_has_its_finding_listed() -> None:
    assert programs("faulty") == sorted(f"faulty_{name}" for name in FAULTS)
    assert (len(programs("faulty")), len(programs("healthy"))) == (30, 30)


@pytest.mark.parametrize("name", [*programs("healthy"), *programs("faulty")])
def test_a_training_is_recorded_and_bad_numbers_are_found_where_they_are(
    tmp_path: Path, name: str
) -> None:
    done = tensortap("run", "-o", "run", ZOO / f"{name}.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tensortap: recorded" in done.stderr
    found = tensortap("nan", "run", folder=tmp_path)
    findings = FAULTS.get(name.removeprefix("faulty_"), [])
    is_bad = name.startswith("faulty_") and any(rule == "nonfinite" for rule, _ in findings)
    assert found.returncode == (1 if is_bad else 0), found.stdout
    check_health(tmp_path / "run", name)


@pytest.mark.parametrize("name", PAIRS)
def test_a_fault_is_found_and_its_healthy_twin_has_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The two are one program, which plants its fault if FAULT is set."""
    rule, glob = PAIRS[name]
    monkeypatch.setenv("PYTHONPATH", f"{ZOO}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    for is_faulty in (False, True):
        monkeypatch.setenv("FAULT", str(int(is_faulty)))
        run = tmp_path / f"run{is_faulty}"
        done = tensortap("run", "-o", run, ZOO / "pairs" / f"{name}.py", folder=tmp_path)
        assert done.returncode == 0 or (is_faulty and name == "batch_of_one"), done.stderr
        found = tt.health(run)
        if not is_faulty:
            assert not found.items, found
            continue
        sites = [site for one in found if one.rule == rule for site in one.sites]
        assert any(
            fnmatch(tail, glob) or fnmatch(site, glob)
            for site in sites
            for tail in tails(site) or [site]
        ), found
        assert all(one.likelihood == "certain" for one in found.errors)


def check_health(run: Path, name: str) -> None:
    """Compare what the rules say with what was planted."""
    found = tt.health(run)
    if name.startswith("healthy_"):
        assert found.errors == ()
        assert not found.items, found
        return
    fault = name.removeprefix("faulty_")
    hits = [
        (rule, site)
        for rule, glob in FAULTS[fault]
        for one in found
        if one.rule == rule
        for site in one.sites
        if fnmatch(site, glob) or any(fnmatch(tail, glob) for tail in tails(site))
    ]
    assert bool(hits) == (fault not in MISSED), found
    if f"faulty_{fault}" in LATER:  # nothing else is blamed
        assert {one.rule for one in found} == {rule for rule, _ in hits}, found


def tails(site: str) -> list[str]:
    """Return the module or parameter of a site: its name without the kind."""
    parts = site.removeprefix("tensortap/").split("/", 1)
    return parts[1:]
