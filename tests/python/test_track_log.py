"""Where the lines of tensortap.track go, and what happens where they cannot."""

from __future__ import annotations

import io
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tensortap import track
from tensortap.track import auto_diff, h4logger, log2file, logger, setup_logger
from tensortap.track import log as track_log


@pytest.fixture(params=["handlers", "no handlers"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the handlers that pytest adds, and without: the short way in C."""
    if request.param == "no handlers":
        monkeypatch.setattr(logger, "handlers", _NoHandlers())


class _NoHandlers(list[logging.Handler]):
    """A list that stays empty, whatever pytest adds to it."""

    def append(self, handler: logging.Handler) -> None:
        pass


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log below the test's own folder, through no handlers, as outside of pytest."""
    monkeypatch.chdir(tmp_path)
    for name in ("TENSORTAP_LOG_DIR", "TENSORTAP_LOG_TAG", "LTAG", "TENSORTAP_LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(track_log, "_default", {})
    before = logger.handlers[:]
    logger.handlers.clear()
    yield
    logger.handlers[:] = before


def logged(folder: Path | str = "ttracker_logs") -> list[str]:
    """Give the lines of all log files of a folder without their times."""
    text = "".join(path.read_text() for path in sorted(Path(folder).glob("process_*.log")))
    return [line.split(" - INFO - ", 1)[1] for line in text.splitlines()]


def python(code: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_importing_writes_nothing(tmp_path: Path) -> None:
    done = python("import tensortap.track, tensortap; tensortap.track.h4logger()", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_both_ways")
def test_a_line_is_printed_and_logged(capsys: pytest.CaptureFixture[str]) -> None:
    log2file("one")
    log2file(2)
    log2file("three\nfour")
    assert capsys.readouterr().out == "one\n2\nthree\nfour\n"
    assert logged() == ["one", "2", "three", "four"]


@pytest.mark.usefixtures("_both_ways")
def test_the_file_has_process_and_thread_in_its_name() -> None:
    log2file("here")
    (path,) = Path("ttracker_logs").iterdir()
    assert path.name == f"process_{os.getpid()}_thread_{threading.get_ident()}.log"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - INFO - here\n", path.read_text())


def test_the_time_is_the_one_of_the_logging_package() -> None:
    log2file("here")
    (path,) = Path("ttracker_logs").iterdir()
    record = logging.makeLogRecord({"levelno": logging.INFO, "levelname": "INFO", "msg": "here"})
    theirs = logging.Formatter("%(asctime)s - %(levelname)s - %(message)s").format(record)
    assert path.read_text()[:16] == theirs[:16]  # to the minute
    assert len(path.read_text()) == len(theirs) + 1


@pytest.mark.usefixtures("_both_ways")
def test_the_environment_chooses_the_folder_while_the_program_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log2file("a")
    monkeypatch.setenv("TENSORTAP_LOG_DIR", "elsewhere")
    log2file("b")
    monkeypatch.setenv("LTAG", "tag")
    log2file("c")
    monkeypatch.delenv("TENSORTAP_LOG_DIR")
    log2file("d")
    monkeypatch.setenv("TENSORTAP_LOG_TAG", "own")
    log2file("e")
    assert logged("ttracker_logs") == ["a"]
    assert logged("elsewhere") == ["b"]
    assert logged("elsewhere/tag") == ["c"]
    assert logged("ttracker_logs/tag") == ["d"]
    assert logged("ttracker_logs/own") == ["e"]


@pytest.mark.usefixtures("_both_ways")
def test_the_folder_stays_where_it_was_when_the_program_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log2file("a")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    log2file("b")
    assert logged(tmp_path / "ttracker_logs") == ["a", "b"]


@pytest.mark.usefixtures("_both_ways")
def test_an_unwritable_folder_gives_one_warning_and_the_program_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TENSORTAP_LOG_DIR", str(tmp_path / "file" / "logs"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert auto_diff(len)("abc") == 3
        log2file("still printed")
    assert len(told) == 1
    assert "TENSORTAP_LOG_DIR" in str(told[0].message)
    assert "still printed" in capsys.readouterr().out


def test_warnings_that_are_errors_do_not_reach_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TENSORTAP_LOG_DIR", str(tmp_path / "file" / "again"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert auto_diff(len)("abc") == 3


def test_a_full_disk_gives_one_warning(tmp_path: Path) -> None:
    handler = h4logger(tmp_path)
    logger.addHandler(handler)
    fd = os.open("/dev/full", os.O_WRONLY)
    handler.file()
    os.dup2(fd, handler._file.fd)
    os.close(fd)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        log2file("lost")
        log2file("lost too")
    assert [warning.category for warning in told] == [RuntimeWarning]


def test_the_seeds_handler_replaces_the_default_file(tmp_path: Path) -> None:
    logger.addHandler(h4logger(tmp_path / "mine"))
    log2file("here")
    assert logged("mine") == ["here"]
    assert not Path("ttracker_logs").exists()


def test_the_seeds_handler_serves_any_logger(tmp_path: Path) -> None:
    other = logging.getLogger("test.track.other")
    other.propagate = False
    other.addHandler(h4logger())
    other.warning("x is %d", 5)
    (path,) = Path("ttracker_logs").iterdir()
    assert path.read_text().endswith(" - WARNING - x is 5\n")


def test_other_handlers_get_each_line_beside_the_file() -> None:
    stream = io.StringIO()
    logger.addHandler(logging.StreamHandler(stream))
    auto_diff(len)("abc")
    assert stream.getvalue().splitlines() == logged()
    assert logged()[0].startswith("┌── ")


def test_setup_logger_adds_one_handler() -> None:
    assert setup_logger() is setup_logger() is logger
    assert [type(handler) for handler in logger.handlers].count(track.ThreadFileHandler) == 1
    log2file("here")
    assert logged() == ["here"]


@pytest.mark.usefixtures("_both_ways")
def test_a_forked_child_writes_a_file_of_its_own() -> None:
    log2file("parent")
    child = os.fork()
    if child == 0:
        log2file("child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    log2file("parent again")
    texts = {path.name.split("_")[1]: path.read_text() for path in Path("ttracker_logs").iterdir()}
    assert texts[str(child)].endswith(" - INFO - child\n")
    assert "child" not in texts[str(os.getpid())]
    assert len(texts) == 2


@pytest.mark.usefixtures("_both_ways")
def test_what_was_told_is_in_the_file_when_the_process_is_killed(tmp_path: Path) -> None:
    program = """
import os, signal
from tensortap.track import auto_diff

@auto_diff
def inner(n):
    return n

@auto_diff
def outer(n):
    inner(n)
    os.kill(os.getpid(), signal.SIGKILL)

outer(7)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TENSORTAP_LOG_DIR": str(tmp_path / "killed")},
        stdout=subprocess.DEVNULL,
    )
    assert done.returncode == -signal.SIGKILL
    (path,) = (tmp_path / "killed").iterdir()
    text = path.read_text()
    assert text.endswith(" s\n")
    lines = [line.split(" - INFO - ")[1] for line in text.splitlines()]
    beginnings = ["┌── [", "├─ input", "│   ┌── [", "│   ├─ input", "│   └─ output", "│   └─ time"]
    assert len(lines) == len(beginnings)
    assert all(map(str.startswith, lines, beginnings))


def test_lines_of_many_threads_are_never_torn(capsys: pytest.CaptureFixture[str]) -> None:
    @auto_diff
    def outer(name: str, x: object) -> str:
        return inner(name)

    @auto_diff
    def inner(name: str) -> str:
        return name

    def work(name: str) -> None:
        start.wait()
        for i in range(50):
            outer(name, np.full(3, i))

    start = threading.Barrier(6)
    workers = [threading.Thread(target=work, args=(f"thread{i}",)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 6 * 50 * 9
    whole = re.compile(
        r"(│   )?(┌── \[test_track_log.py:\d+\] function \[.*\)|├─ input .*|"
        r"└─ (output value: '.*'|time .* s))"
    )
    assert [line for line in printed if not whole.fullmatch(line)] == []
    files = [path.read_text().splitlines() for path in Path("ttracker_logs").glob("*.log")]
    assert sum(len(lines) for lines in files) == len(printed)
    shape = [
        "┌── [",
        "├─ inp",
        "├─ inp",
        "│   ┌──",
        "│   ├─ ",
        "│   └─ ",
        "│   └─ ",
        "└─ out",
        "└─ tim",
    ]
    for lines in files:
        bare = [line.split(" - INFO - ")[1] for line in lines]
        assert [
            line[: len(part)] for line, part in zip(bare, shape * 999, strict=False)
        ] == shape * (len(bare) // 9)


@pytest.mark.usefixtures("_both_ways")
def test_a_thread_that_ends_closes_its_file() -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    log2file("here")
    before = open_files()
    for _ in range(20):
        worker = threading.Thread(target=log2file, args=("there",))
        worker.start()
        worker.join()
    assert open_files() <= before + 1


class _Stream(io.TextIOBase):
    """A stream that raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.usefixtures("_both_ways")
def test_a_stream_that_fails_does_not_disturb(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (OSError("gone"), ValueError("closed"), RuntimeError("odd")):
        monkeypatch.setattr(sys, "stdout", _Stream(error))
        assert auto_diff(len)("abc") == 3
    monkeypatch.setattr(sys, "stdout", None)
    assert auto_diff(len)("abc") == 3
    assert len(logged()) == 4 * 4


def test_ctrl_c_in_the_middle_of_a_line_reaches_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", _Stream(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        auto_diff(len)("abc")


def test_a_stream_without_these_letters_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    auto_diff(len)("ä")
    sys.stdout.flush()
    assert raw.getvalue().startswith(b"\\u250c\\u2500\\u2500 [?] function [len]")


def test_a_stream_that_cannot_flush_a_broken_pipe_ends_quietly(tmp_path: Path) -> None:
    code = "from tensortap.track import auto_diff\nfor i in range(5000): auto_diff(len)('abc')"
    command = f"{sys.executable} -c '{code.replace(chr(39), chr(34))}' | head -1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.startswith("┌── ")


def test_the_words_are_the_seeds_in_chinese(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENSORTAP_LANG", "zh")

    @auto_diff
    def double(x: int) -> int:
        return x * 2

    double(3)
    head, given, result, time = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"┌── \[test_track_log.py:\d+\] 函数 \[double\] 被调用于 test_\w+:\d+ \(.*\)", head
    )
    assert given == "├─ 输入 [Var] x@0 value: 3"
    assert result == "└─ 输出 value: 6"
    assert re.fullmatch(r"└─ 耗时 double: \d\.\d{4} s", time)


def test_indentation_is_each_threads_own() -> None:
    manager = track.IndentManager
    assert manager.increase() == 1
    seen = []
    worker = threading.Thread(target=lambda: seen.append(manager.get()))
    worker.start()
    worker.join()
    assert seen == [0]
    assert manager.text() == "│   "
    assert manager.decrease() == 0
    assert manager.decrease() == 0


@pytest.mark.parametrize(
    "decorate", [auto_diff, track.debug_trace, track.fstack, track.var_tracker("x")]
)
def test_what_is_no_function_is_not_tracked(decorate: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="what is tracked must be a function, not 3"):
        decorate(3)
