"""Several consumers watch at once, each what it selected.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from line_lab import BACKENDS, FILE, code_of, run, surroundings, watch_lines

from tensortap import _core


def one(x: Any) -> Any:
    y = x + 1
    z = y * 2
    return z


def two(x: Any) -> Any:
    u = x - 1
    v = one(u)
    return v


X = surroundings("numpy")["x"]


def names_of(into: list[str]) -> Any:
    return lambda event: into.extend(change.name for change in event.changes)


def test_each_consumer_gets_its_selection() -> None:
    a: list[str] = []
    b: list[str] = []
    c: list[str] = []
    first = code_of(one).co_firstlineno
    watches = [
        watch_lines(names_of(a), codes=[code_of(one)], arrays=True),
        watch_lines(names_of(b), codes=[code_of(two)], names=["v"], arrays=True),
        watch_lines(
            names_of(c), select=lambda code: (first + 2, first + 2), files=[__file__], arrays=True
        ),
        watch_lines(names_of(c), select=lambda code: False, arrays=True),
    ]
    two(X)
    watches[0].close()
    two(X)
    for watch in watches:
        watch.close()
    two(X)
    assert a == ["y", "z"]
    assert b == ["v", "v"]
    assert c == ["z", "z"]


def test_a_select_function_is_asked_once_for_a_code_object() -> None:
    asked: list[str] = []
    seen: list[str] = []

    def select(code: Any) -> Any:
        asked.append(code.co_name)
        return (code.co_firstlineno, code.co_firstlineno + 1) if code.co_name == "one" else False

    with watch_lines(names_of(seen), select=select, files=[__file__], arrays=True):
        for _ in range(3):
            two(X)
    assert seen == ["y"] * 3
    assert asked.count("one") == asked.count("two") == 1


def test_a_consumer_may_come_while_another_watches() -> None:
    a: list[str] = []
    b: list[str] = []
    with watch_lines(names_of(a), codes=[code_of(one)], arrays=True):
        two(X)
        with watch_lines(names_of(b), codes=[code_of(two)], arrays=True):
            two(X)
        two(X)
    assert a == ["y", "z"] * 3
    assert b == ["u", "v"]


def test_arrays_are_told_only_to_those_who_want_them() -> None:
    a: list[str] = []
    b: list[str] = []
    with (
        watch_lines(names_of(a), codes=[code_of(one)]),
        watch_lines(names_of(b), codes=[code_of(one)], arrays=True),
    ):
        one(X)
    assert (a, b) == ([], ["y", "z"])


def test_every_object_is_told_where_asked() -> None:
    told = run("n = 1\ns = 'a'\nn = n + 1\nz = None\nq = [n]", {"x": X}, objects=True)
    assert told.arrows() == [
        (1, "n", []),
        (2, "s", []),
        (3, "n", ["n"]),
        (4, "z", []),
        (5, "q", ["n"]),
    ]


def test_lines_come_before_they_run_and_frames_come_and_go() -> None:
    log: list[tuple[Any, ...]] = []
    first = code_of(one).co_firstlineno
    with watch_lines(
        lambda e: log.append(("change", e.line - first, e.changes[0].name)),
        codes=[code_of(one)],
        line=lambda e: log.append(("line", e.line - first)),
        enter=lambda e: log.append(("enter", e.is_resumed)),
        leave=lambda e: log.append(
            ("leave", e.line - first, [r.name for r in e.reads], e.value is not None)
        ),
        arrays=True,
    ):
        one(X)
    assert log == [
        ("enter", False),
        ("line", 1),
        ("change", 1, "y"),
        ("line", 2),
        ("change", 2, "z"),
        ("line", 3),
        ("leave", 3, ["z"], True),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_before_tells_the_reads_as_they_are_then(backend: str) -> None:
    sums: list[tuple[int, str, float]] = []
    run(
        "x += 1\nx = x * 0\nz = x + y",
        surroundings(backend),
        before=lambda e: sums.extend((e.line - 1, r.name, float(r.object.sum())) for r in e.reads),
    )
    # What the third one reads is the same after it.
    assert sums == [(1, "x", 9.0), (2, "x", 18.0)]


def test_a_read_that_was_never_told_is_not_seen() -> None:
    told = run("z = x + y\nv = x + z", surroundings("numpy"))
    assert [(r.name, r.is_seen) for r in told.events[0].reads] == [("x", False), ("y", False)]
    assert [(r.name, r.is_seen) for r in told.events[1].reads] == [("x", True), ("z", True)]


def test_yields_and_exceptions_are_told_apart() -> None:
    log: list[tuple[Any, ...]] = []

    def steps(x: Any) -> Any:
        yield x
        raise ValueError

    with watch_lines(
        codes=[code_of(steps)],
        enter=lambda e: log.append(("enter", e.is_resumed)),
        leave=lambda e: log.append(("leave", e.is_yield, e.value is X)),
    ):
        running = steps(X)
        next(running)
        with pytest.raises(ValueError):  # noqa: PT011
            next(running)
    assert log == [
        ("enter", False),
        ("leave", True, True),
        ("enter", True),
        ("leave", False, False),
    ]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"change": 3}, TypeError),
        ({"select": "x"}, TypeError),
        ({"lines": 3}, TypeError),
        ({"threads": "some"}, ValueError),
        ({"change": print, "bare": True}, ValueError),
        ({"bogus": 1}, TypeError),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        _core.watch_lines(**options)


def test_there_is_a_limit_to_consumers_and_it_says_so() -> None:
    watches = [watch_lines(codes=[code_of(one)]) for _ in range(32)]
    with pytest.raises(RuntimeError, match="32"):
        watch_lines()
    for watch in watches:
        watch.close()
        watch.close()
    assert watches[0].errors == (0, None)
    assert FILE


THREADS = """\
import ctypes, time
from tensortap import _core

libc = ctypes.CDLL(None)
enter = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: None)
end = time.monotonic() + 2
while time.monotonic() < end:
    threads = [ctypes.c_ulong() for _ in range(8)]
    for thread in threads:
        assert libc.pthread_create(ctypes.byref(thread), None, enter, None) == 0
    for _ in range(40):
        _core.watch_lines(lambda event: None, select=lambda code: False).close()
    for thread in threads:
        libc.pthread_join(thread, None)
"""


def test_consumers_come_and_go_while_threads_of_other_languages_come_to_python() -> None:
    ran = subprocess.run([sys.executable, "-c", THREADS], timeout=120)
    assert ran.returncode == 0
