"""What the program does on a real terminal: keys, questions, bars."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import answer, tensortap
from programs import PATIENCE, wait_for
from terminals import Terminal

import tensortap as tt


def has_points(run: Path) -> bool:
    """Say if something can be seen of a run that has just begun."""
    try:
        return len(tt.open(run).steps) > 1
    except (OSError, ValueError):  # not yet there
        return False


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    """Give the folder of a run that grows while the test looks on."""
    is_over = threading.Event()

    def train() -> None:
        with tt.record(tmp_path / "run") as run:
            for step in range(100_000):
                run.log("loss", 1 / (step + 1))
                run.tensor("activation/fc", np.full(8, step % 7, np.float32))
                run.step()
                if is_over.wait(0.02):
                    break

    thread = threading.Thread(target=train)
    thread.start()
    try:
        wait_for(lambda: has_points(tmp_path / "run"), "two steps of the run")
        yield tmp_path
    finally:
        is_over.set()
        thread.join()


def last_step(text: str) -> int:
    return int(re.findall(r"steps 0 to ([\d ]+?)  ", text)[-1].replace(" ", ""))


def test_top_follows_a_live_run_until_q(live: Path) -> None:
    with Terminal("top", "run", folder=live) as terminal:
        first = last_step(terminal.wait_for("CHANGES MOST"))
        assert "live" in terminal.text
        assert "activation/fc" in terminal.wait_for("activation/fc")
        terminal.type("x\x1b[A\x1b[B ")  # other keys, and arrows: nothing happens
        terminal.wait_until(lambda text: last_step(text) > first, f"no step after {first}")
        assert terminal.process.poll() is None
        terminal.wait_for("steps a second")
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.text.startswith("\x1b[?1049h")  # a screen of its own ...
        assert terminal.text.rstrip().endswith("\x1b[?1049l")  # ... that is gone again
        assert terminal.is_as_before


def test_a_run_that_is_written_is_called_live_and_is_not_removed(live: Path) -> None:
    assert [run["state"] for run in answer("ls", folder=live)["runs"]] == ["live"]
    done = tensortap("rm", "--yes", "run", folder=live)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "tensortap: run is being written; end its program first\n"
    assert answer("ls", "--keep-last", "0", "--yes", folder=live)["removed"] == []
    assert (live / "run" / "rank0.tap").exists()


@pytest.mark.parametrize("how", ["\x03", "SIGTERM"])
def test_top_leaves_the_terminal_as_it_was_however_it_ends(live: Path, how: str) -> None:
    with Terminal("top", "run", folder=live) as terminal:
        terminal.wait_for("CHANGES MOST")
        assert not terminal.is_as_before
        if how == "\x03":
            terminal.type(how)
        else:
            children = Path(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children")
            program = (children.read_text().split() or [str(terminal.process.pid)])[0]
            os.kill(int(program), signal.SIGTERM)
        terminal.end()
        assert "\x1b[?1049l" in terminal.text
        assert terminal.is_as_before


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with tt.record(tmp_path / "run") as recording:
        recording.log("loss", 1.0)
    return tmp_path


@pytest.mark.parametrize("keys", ["y\n", "Yes\n"])
def test_rm_removes_after_a_yes(run: Path, keys: str) -> None:
    with Terminal("rm", "run", folder=run) as terminal:
        terminal.wait_for("Remove 1 run, ")
        terminal.wait_for("[y/N] ")
        terminal.type(keys)
        assert terminal.end() == 0
        assert "removed run" in terminal.text
    assert not (run / "run").exists()


@pytest.mark.parametrize("keys", ["n\n", "\n", "no thanks\n", "\x04"])
def test_rm_removes_nothing_after_a_no_or_the_end_of_input(run: Path, keys: str) -> None:
    with Terminal("rm", "run", folder=run) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(keys)
        assert terminal.end() == 0
        assert "nothing was removed" in terminal.text
    assert (run / "run" / "rank0.tap").exists()


def test_rm_removes_nothing_after_control_c(run: Path) -> None:
    with Terminal("rm", "run", folder=run) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type("\x03")
        assert terminal.end() != 0
        assert "removed" not in terminal.text
    assert (run / "run" / "rank0.tap").exists()


def test_ls_keep_last_asks_too(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with tt.record(tmp_path / "runs" / name) as recording:
            recording.log("loss", 1.0)
    with Terminal("ls", "runs", "--keep-last", "1", folder=tmp_path) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_a_bar_says_how_much_is_done_and_goes_away(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as recording:
        for site in range(4):
            for _ in range(1000):
                recording.tensor(f"x{site}", np.ones(3, np.float32))
    os.mkfifo(tmp_path / "slow")
    got, is_shown = [], threading.Event()
    bar = re.compile(r"exporting \[(=*) *\] +(\d+)%")

    def read_slowly() -> None:
        with (tmp_path / "slow").open("rb") as file:
            got.append(file.read(300_000))  # about the half, and then a pause
            is_shown.wait(PATIENCE)
            got.append(file.read())

    reader = threading.Thread(target=read_slowly, daemon=True)
    reader.start()
    with Terminal("export", "run", "--to", "csv", "-o", "slow", folder=tmp_path) as terminal:
        shown = bar.findall(terminal.wait_until(lambda text: bool(bar.search(text)), "no bar"))
        is_shown.set()
        assert terminal.end() == 0
        share = int(shown[0][1])
        assert 0 < share < 100
        assert abs(len(shown[0][0]) - share * 24 / 100) <= 1
        assert terminal.text.endswith("\r\x1b[K")
    reader.join()
    assert b"".join(got).count(b"\n") == 4001
