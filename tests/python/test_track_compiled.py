"""Tracked functions inside compiled code: the same results, the same lines, no new warnings."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tensortap.files.imports import when_imported
from tensortap.track import auto_diff, calls, fstack
from tensortap.track.description import Description
from tensortap.track.rendering import tensor_text

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORTAP_LOG_DIR", str(tmp_path))


def scaled(x: Any, k: int = 2) -> Any:
    return (x * k).relu()


def test_a_compiled_program_logs_each_tracked_call_and_gets_no_warning() -> None:
    tracked = fstack(auto_diff(scaled))

    def program(x: Any) -> Any:
        return tracked(x + 1).sum()

    compiled = torch.compile(program, backend="eager")
    out = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out):
        warnings.simplefilter("error")
        results = [compiled(torch.ones(3)).item() for _ in range(3)]
    assert results == [12.0] * 3
    lines = re.sub(r"\d\.\d{4} s", "T s", out.getvalue()).splitlines()
    assert lines.count("└─ time scaled: T s") == 3
    assert sum("input [Tensor] x@0" in line for line in lines) == 3
    assert sum(line == "┌── stack of [scaled]" for line in lines) == 3


def test_dynamo_compiles_no_frame_of_ours() -> None:
    from torch._dynamo.convert_frame import input_codes

    tracked = auto_diff(scaled)

    def program(x: Any) -> Any:
        return tracked(x) + 1

    compiled = torch.compile(program, backend="eager")
    with contextlib.redirect_stdout(io.StringIO()):
        compiled(torch.ones(3))
    assert program.__code__ in input_codes
    ours = (calls.begin.__wrapped__, calls.end.__wrapped__, tensor_text, Description.__init__)
    assert [one.__name__ for one in ours if one.__code__ in input_codes] == []


def test_two_who_wait_for_one_import_are_both_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "awaited_module.py").write_text("x = 1\n")
    called: list[int] = []
    when_imported("awaited_module", lambda: called.append(1))
    when_imported("awaited_module", lambda: called.append(2))
    module: ModuleType = __import__("awaited_module")
    assert module.x == 1
    assert sorted(called) == [1, 2]
    del sys.modules["awaited_module"]
