"""A run file that was damaged: the error says what to do, and that saves the rest."""

from __future__ import annotations

import math
import shlex
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import tensortap

import tensortap as tt


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # a short path
    with tt.record("run") as run:
        for step in range(600):
            run.log("x", step)
            if step % 100 == 0:
                run.tensor("t", np.full(1000, float(step)), keep="stats|value")
            run.step()
    return Path("run", "rank0.tap")


READS: dict[str, Callable[[tt.Run], object]] = {
    "series": lambda run: run.series("x"),
    "stats": lambda run: run.stats("t"),
    "one point": lambda run: run.stats("t", 500),
    "a value": lambda run: [run.tensor("t", step, as_numpy=True) for step in range(0, 600, 100)],
    "steps": lambda run: run.steps,
}


@pytest.mark.parametrize("read", READS)
def test_the_error_of_a_damaged_file_names_the_command_that_saves_the_rest(
    whole: Path, read: str
) -> None:
    good, said = whole.read_bytes(), set()
    for at in range(200, len(good), 211):
        whole.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        try:
            run = tt.open(whole)
        except ValueError:
            continue  # nothing to save: its beginning is gone
        try:
            READS[read](run)
        except ValueError as error:
            said.add(str(error).partition("; ")[2])
        except KeyError:
            pass  # the name itself, or that step, is what was lost
    if read in ("series", "a value"):
        assert said
    assert said <= {f"save the rest with: tensortap check --repair {whole}"}


def test_what_the_error_advises_saves_the_rest(whole: Path) -> None:
    good = whole.read_bytes()
    at = good.index(np.full(8, 300.0).tobytes())  # in the value of step 300
    whole.write_bytes(good[:at] + b"?" + good[at + 1 :])
    with pytest.raises(ValueError, match="save the rest with: tensortap check --repair") as error:
        tt.open(whole).tensor("t", 300, as_numpy=True)
    advice = shlex.split(str(error.value).split("with: ")[1])
    tensortap(*advice[1:], folder=Path.cwd())
    saved = tt.open(whole.with_name("rank0.repaired.tap"))
    assert saved.check()
    assert saved.series("x")[1].tolist() == list(range(600))
    assert saved.tensor("t", 500, as_numpy=True).tolist() == [500.0] * 1000


def test_a_damaged_run_goes_on_with_a_warning_and_all_that_can_be_read(tmp_path: Path) -> None:
    def record(steps: range, *, resume: bool) -> None:
        with tt.record(tmp_path / "run", resume=resume) as run:
            for step in steps:
                run.log("x", step + math.pi)
                run.step()
                run.flush()  # a chunk of its own: many are merged

    record(range(10), resume=False)
    file = tmp_path / "run" / "rank0.tap"
    good = file.read_bytes()
    at = good.index(struct.pack("<d", 4 + math.pi))
    file.write_bytes(good[:at] + b"?" + good[at + 1 :])
    with pytest.warns(RuntimeWarning, match="1 of the points recorded before cannot be read"):
        record(range(10, 160), resume=True)
    run = tt.open(tmp_path / "run")
    assert run.series("x")[1].tolist() == [step + math.pi for step in range(160) if step != 4]
    assert [note for note in run.notes if "x at steps 4 to 4 cannot be read" in note.text]


@pytest.mark.heavy  # a million points
def test_points_that_take_far_more_memory_than_their_run_are_refused(tmp_path: Path) -> None:
    zero = np.zeros(2, np.float32)
    with tt.record(tmp_path / "run") as run:
        for _ in range(1_000_000):
            run.tensor("x", zero)
    read = tt.open(tmp_path / "run")
    assert read.files[0].bytes < 1_000_000 * 300 / 32
    for ask in (lambda: read.stats("x"), read.to_frame):
        with pytest.raises(ValueError, match=r"these 1000000 points take 300 MB .* run\.series\("):
            ask()
    assert len(read.series("x")[0]) == 1_000_000


def test_a_damaged_run_says_so_where_it_is_printed(whole: Path) -> None:
    good, shown = whole.read_bytes(), ""
    for at in range(200, len(good), 2110):
        whole.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        try:
            run = tt.open(whole)
        except ValueError:
            continue
        shown += repr(run) + run._repr_html_()
    assert "unknown steps" in shown
    assert "damaged: " in shown
    assert (
        "the file is damaged; save the rest with: tensortap check --repair run/rank0.tap" in shown
    )
