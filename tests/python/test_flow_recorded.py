"""Changes that flow captures are in the run that is open."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from charts import capture
from commands import tensortap

import tensortap as tt

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("flow_alone")


def test_changes_are_sites_of_the_open_run(tmp_path: Path) -> None:
    program = "import torch\nx = torch.ones(3)\nfor _ in range(2):\n    x = x * 2\n"
    with tt.record(tmp_path / "run"):
        capture(tmp_path, program)
    run = tt.open(tmp_path / "run")
    assert run.names("line/*") == ["line/prog.py:2:x", "line/prog.py:4:x"]
    assert run.series("line/prog.py:4:x", "max")[1].tolist() == [2.0, 4.0]


def test_the_program_lists_the_changes(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run"):
        capture(tmp_path, "import torch\nx = torch.ones(3)\ny = x * 2\n")
    shown = tensortap("show", tmp_path / "run", "line/*", folder=tmp_path)
    assert shown.returncode == 0
    (x,) = re.findall(r"2:x .*", shown.stdout)
    (y,) = re.findall(r"3:y .*", shown.stdout)
    assert "float32[3]" in x
    assert " 2 " in y


def test_without_a_run_nothing_is_recorded(tmp_path: Path) -> None:
    assert len(capture(tmp_path, "import torch\nx = torch.ones(3)\n")["nodes"]) == 1
    assert not list(tmp_path.glob("**/*.tap"))
