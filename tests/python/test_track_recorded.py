"""In an open run the calls and changes are recorded as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from track_lab import run

import tensortap as tt
from tensortap import flow
from tensortap.track import auto_diff, block, var_tracker

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORTAP_LOG_DIR", str(tmp_path / "logs"))


def test_inputs_outputs_and_times_of_calls_are_sites_of_the_run(tmp_path: Path) -> None:
    class Net:
        @auto_diff
        def forward(self, x: torch.Tensor, gain: float, name: str) -> tuple[torch.Tensor, int]:
            return x * gain, 3

    with tt.record(tmp_path / "run") as recording:
        for gain in (2.0, 4.0):
            Net().forward(torch.ones(3), gain, "text")
            recording.step()
    opened = tt.open(tmp_path / "run")
    assert sorted(opened.names("call/*")) == [
        "call/Net.forward/gain",
        "call/Net.forward/output[0]",
        "call/Net.forward/output[1]",
        "call/Net.forward/time",
        "call/Net.forward/x",
    ]
    assert opened.series("call/Net.forward/output[0]", "max")[1].tolist() == [2.0, 4.0]
    assert opened.series("call/Net.forward/gain")[1].tolist() == [2.0, 4.0]
    assert all(0 <= second < 10 for second in opened.series("call/Net.forward/time")[1])


def test_changes_are_sites_of_the_run(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run"):
        run("x = torch.ones(2)\nfor n in range(2):\n    x += 1\n    y = 'text'", "x", "n", "y")
    opened = tt.open(tmp_path / "run")
    assert sorted(opened.names("line/*")) == [
        "line/prog.py:2:x",
        "line/prog.py:3:n",
        "line/prog.py:4:x",
    ]
    assert opened.series("line/prog.py:4:x", "mean")[1].tolist() == [2.0, 3.0]
    assert opened.series("line/prog.py:3:n")[1].tolist() == [0.0, 1.0]


def test_a_change_that_flow_sees_too_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    path = folder / "clips.py"
    path.write_text(
        "import torch\ndef load(n):\n    x = torch.ones(2)\n    for _ in range(n):\n"
        "        x += 1\n        y = x * 2\n    return y\n"
    )
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    flow.reset()
    flow.on(show=False)
    try:
        with tt.record(tmp_path / "run"):
            var_tracker("x")(space["load"])(3)
    finally:
        flow.off(render=False)
        flow.reset()
    opened = tt.open(tmp_path / "run")
    assert {name for name in opened.names("line/*") if name.endswith((":x", ":y"))} == {
        "line/data/clips.py:3:x",
        "line/data/clips.py:5:x",
        "line/data/clips.py:6:y",
    }
    assert opened.series("line/data/clips.py:5:x", "mean")[1].tolist() == [2.0, 3.0, 4.0]
    assert opened.series("line/data/clips.py:6:y", "mean")[1].tolist() == [4.0, 6.0, 8.0]


def test_without_a_run_nothing_is_recorded(tmp_path: Path) -> None:
    run("x = torch.ones(2)", "x")
    assert not list(tmp_path.glob("**/*.tap"))


def test_a_run_that_is_closed_meanwhile_does_not_disturb(tmp_path: Path) -> None:
    @auto_diff
    def work(recording: object, x: torch.Tensor) -> torch.Tensor:
        recording.close()  # type: ignore[attr-defined]
        return x

    with tt.record(tmp_path / "run") as recording:
        assert work(recording, torch.ones(1)) is not None
    assert tt.open(tmp_path / "run").names("call/*") == ["call/work/x"]


def test_tensors_without_values_do_not_disturb(tmp_path: Path) -> None:
    @auto_diff
    def work(x: torch.Tensor) -> Iterator[torch.Tensor]:
        yield x.to("meta")

    with tt.record(tmp_path / "run"):
        assert len(list(work(torch.ones(1)))) == 1
        with block("x"):
            x = torch.ones(1, device="meta")
        var_tracker("x")(lambda: x)()
    assert "call/work/x" in tt.open(tmp_path / "run").names("call/*")
