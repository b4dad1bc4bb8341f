"""Small trainings, healthy and with a planted fault, recorded from outside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commands import tensortap

pytest.importorskip("torch")

ZOO = Path(__file__).parents[1] / "zoo"
sys.path.append(str(ZOO))
from expected import FAULTS  # noqa: E402

pytestmark = pytest.mark.heavy


def programs(kind: str) -> list[str]:
    return sorted(path.stem for path in ZOO.glob(f"{kind}_*.py"))


def test_there_are_as_many_of_both() -> None:
    assert programs("faulty") == sorted(f"faulty_{name}" for name in FAULTS)
    assert len(programs("faulty")) == len(programs("healthy")) == 24


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
