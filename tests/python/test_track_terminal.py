"""On a terminal the tree has colours and fits; in files it has neither."""

from __future__ import annotations

import functools
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tensortap.track.wrapping import width, wrap

pytest.importorskip("torch")

PROGRAM = """\
import torch
from tensortap.track import auto_diff, var_tracker

@var_tracker("picture")
def load(path, *sizes):
    picture = torch.zeros(3, 640, 480)
    picture[0, 0, 0] = float("nan")
    picture = inner(picture)
    return picture

@auto_diff
def inner(picture):
    return picture.permute(1, 2, 0).double() + 1

load("p" * 300, list(range(20)))
"""


@functools.cache
def on_terminal(columns: int, no_color: bool = False) -> tuple[str, str]:
    """Run PROGRAM on a terminal of its own; give what came out, and its log."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shown = run_on_terminal(folder, columns, {"NO_COLOR": "1"} if no_color else {})
        (log,) = (folder / "logs").iterdir()
        return shown, log.read_text()


def run_on_terminal(folder: Path, columns: int, environment: dict[str, str]) -> str:
    (folder / "prog.py").write_text(PROGRAM)
    ours, theirs = pty.openpty()
    surroundings = {
        **os.environ,
        "COLUMNS": str(columns),
        "TENSORTAP_LOG_DIR": str(folder / "logs"),
        "TERM": "xterm",
    }
    surroundings.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "prog.py"],
        cwd=folder,
        env={**surroundings, **environment},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    parts = []
    while select.select([ours], [], [], 120)[0]:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    assert process.wait(120) == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


def bare(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_names_changes_and_nan_have_colours_on_a_terminal_only() -> None:
    shown, log = on_terminal(200)
    assert "\x1b[36mpicture\x1b[0m@7" in shown
    assert "\x1b[1;31m1 NaN\x1b[0m" in shown
    assert re.search(r"\x1b\[33mchanged: shape, dtype\x1b\[0m", shown)
    assert re.search(r"\x1b\[33mshape=[^|]+\x1b\[0m \| \x1b\[33mdtype=\S+\x1b\[0m \|", shown)
    assert "\x1b" not in log
    assert "[Tensor] picture@7" in log


def test_no_color_is_obeyed() -> None:
    assert "\x1b" not in on_terminal(200, no_color=True)[0]


@pytest.mark.parametrize("columns", [60, 100])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    shown, log = on_terminal(columns)
    shown = bare(shown)
    assert max(width(line) for line in shown.splitlines()) <= columns
    rows = shown.splitlines()
    assert all(re.match(r"(│   )*(┌── |├─ |└─ |│     |      )", row) for row in rows), shown
    words = re.sub(r"\s+", " ", re.sub(r"[│┌├└─]", " ", shown))
    for line in log.splitlines():
        text = re.sub(r"[│┌├└─]", " ", line.split(" - INFO - ")[1])
        assert re.sub(r"\s", "", text) in re.sub(r"\s", "", words)  # nothing is lost


def test_the_log_keeps_whole_lines() -> None:
    assert any(len(line) > 150 for line in on_terminal(60)[1].splitlines())


def test_lines_end_between_fields() -> None:
    stats = "mean=1 std=0 min=1 max=1 | changed: shape"
    line = f"│   ├─ [Tensor] x@3 → shape=torch.Size([2]) | dtype=torch.float32 | {stats}"
    assert wrap(line, 70).split("\n") == [
        "│   ├─ [Tensor] x@3 → shape=torch.Size([2]) | dtype=torch.float32",
        "│   │     | mean=1 std=0 min=1 max=1 | changed: shape",
    ]
    last = line.replace("├", "└")
    assert wrap(last, 70).split("\n")[1].startswith("│         | mean")


def test_a_colour_goes_on_below() -> None:
    text = "├─ \x1b[33m" + "word " * 30 + "\x1b[0mend"
    rows = wrap(text, 50).split("\n")
    assert all(row.count("\x1b[33m") == 1 for row in rows)
    assert all(row.endswith("\x1b[0m") for row in rows[:-1])


def test_letters_that_take_two_columns_count_twice() -> None:
    assert width("函数 x") == 6
    assert all(width(row) <= 30 for row in wrap("├─ " + "输入 函数 " * 20, 30).split("\n"))


def test_a_very_narrow_terminal_still_gets_words() -> None:
    deep = "│   " * 10 + "├─ " + "word " * 20
    assert all(len(row) < 80 for row in wrap(deep, 10).split("\n"))
    assert wrap(deep, 10).count("word") == 20


def test_a_word_longer_than_the_line_is_cut() -> None:
    rows = wrap("├─ " + "x" * 200, 50).split("\n")
    assert all(len(row) <= 50 for row in rows)
    assert sum(row.count("x") for row in rows) == 200


def test_very_long_values_are_cut_with_their_length() -> None:
    assert "… (length 300)" in on_terminal(100)[1]
