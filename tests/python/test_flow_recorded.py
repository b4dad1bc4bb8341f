"""Changes that flow captures are in the run that is open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from charts import capture

import tensortap as tt
from tensortap import flow

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    flow.reset()
    yield
    flow.reset()


def test_changes_are_sites_of_the_open_run(tmp_path: Path) -> None:
    program = "import torch\nx = torch.ones(3)\nfor _ in range(2):\n    x = x * 2\n"
    with tt.record(tmp_path / "run"):
        capture(tmp_path, program)
    run = tt.open(tmp_path / "run")
    assert run.names("line/*") == ["line/prog.py:2:x", "line/prog.py:4:x"]
    assert run.series("line/prog.py:4:x", "max")[1].tolist() == [2.0, 4.0]


def test_without_a_run_nothing_is_recorded(tmp_path: Path) -> None:
    assert len(capture(tmp_path, "import torch\nx = torch.ones(3)\n")["nodes"]) == 1
    assert not list(tmp_path.glob("**/*.tap"))
