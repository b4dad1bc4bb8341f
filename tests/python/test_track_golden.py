"""The tree of each small program in track_example.py is the one in tests/golden/track."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("torch")

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden" / "track"
PARTS = [
    "functions",
    "methods",
    "generators",
    "coroutines",
    "recursion",
    "exceptions",
    "threads",
    "changes",
    "blocks",
    "lines",
    "stacks",
]


def masked(text: str) -> str:
    """Hide what differs from run to run, and from Python to Python."""
    text = re.sub(r"(\d+\.\d{4}) s$", "T s", text, flags=re.M)
    text = re.sub(r"called at \w+:\d+ \((?!track_example)[^)]*\)", "called at LIBRARY", text)
    return re.sub(r"( <- (?!track_example)\w+\.py:\d+)+", " <- LIBRARY", text)


@cache
def printed(folder: str) -> tuple[str, str]:
    """Run the example once; give what it printed and what its log files hold."""
    environment = {**os.environ, "TENSORTAP_LOG_DIR": folder, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / "track_example.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    logged = "".join(path.read_text() for path in sorted(Path(folder).glob("process_*.log")))
    return masked(done.stdout), masked(logged)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("track"))


def parts(text: str) -> dict[str, str]:
    found = re.split(r"^== (\w+)\n", text, flags=re.M)
    return dict(zip(found[1::2], found[2::2], strict=True))


@pytest.mark.parametrize("part", PARTS)
def test_the_tree_is_the_golden_one(part: str, folder: str) -> None:
    text = parts(printed(folder)[0])[part]
    golden = GOLDEN / f"{part}.txt"
    if os.environ.get("TENSORTAP_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_every_golden_file_is_compared() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*")) == sorted(PARTS)


def test_the_log_holds_every_printed_line_behind_its_time(folder: str) -> None:
    shown, logged = printed(folder)
    stamped = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - INFO - (.*)")
    bare = []
    for line in logged.splitlines():
        match = stamped.fullmatch(line)
        assert match is not None, line
        bare.append(match[1])
    assert sorted(bare) == sorted(shown.splitlines())


def test_each_thread_has_its_own_file_with_its_whole_tree(folder: str) -> None:
    printed(folder)
    files = [path.read_text() for path in Path(folder).glob("process_*.log")]
    threads = [text for text in files if "== functions" not in text]
    assert 1 <= len(threads) <= 3  # an ident may be used again by the next thread
    assert sum(text.count("[work]") for text in threads) == 3
    assert all(text.count("┌──") == text.count("time work") for text in threads)
