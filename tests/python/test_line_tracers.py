"""Whoever traced before goes on tracing, and is put back.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import bdb
import sys
import threading
from types import FrameType
from typing import Any

import numpy as np
import pytest
from line_files import module
from line_lab import code_of, surroundings, watch_lines


def work(x: Any) -> Any:
    y = x + 1
    z = y * 2
    return z


def helper(n: int) -> int:
    n = n + 1
    return n


class Log:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, str]] = []

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_name in {"work", "helper"}:
            self.seen.append(
                (event, frame.f_lineno - frame.f_code.co_firstlineno, frame.f_code.co_name)
            )
        return self


def traced(call: Any, log: Any) -> None:
    old = sys.gettrace()
    sys.settrace(log)
    try:
        call()
        assert sys.gettrace() is not None
    finally:
        now = sys.gettrace()
        sys.settrace(old)
    assert now is log


X = surroundings("numpy")["x"]


@pytest.mark.parametrize("is_selected", [True, False])
def test_a_trace_function_gets_every_event_as_without_us(is_selected: bool) -> None:
    plain, ours = Log(), Log()

    def both() -> None:
        work(X)
        helper(1)

    traced(both, plain)
    names: list[str] = []

    def watched() -> None:
        code = code_of(work) if is_selected else code_of(surroundings)
        with watch_lines(
            lambda e: names.extend(c.name for c in e.changes), codes=[code], arrays=True
        ):
            both()

    traced(watched, ours)
    assert ours.seen == plain.seen
    assert len(plain.seen) == 9
    assert names == (["y", "z"] if is_selected else [])


def test_there_is_no_trace_function_afterwards_if_there_was_none() -> None:
    old = sys.gettrace()
    with watch_lines(lambda e: None):
        work(X)
    assert sys.gettrace() is old
    assert threading.gettrace() is None


def test_it_is_put_back_on_an_exception_too() -> None:
    log = Log()

    def fail() -> None:
        with pytest.raises(ZeroDivisionError), watch_lines(lambda e: None):
            1 / 0  # noqa: B018

    traced(fail, log)


def test_the_threads_trace_function_is_called_and_put_back() -> None:
    log, names = Log(), []
    threading.settrace(log)
    try:
        with watch_lines(
            lambda e: names.extend(c.name for c in e.changes), codes=[code_of(work)], arrays=True
        ):
            thread = threading.Thread(target=work, args=(X,))
            thread.start()
            thread.join()
        assert threading.gettrace() is log
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    assert names == ["y", "z"]
    assert [event for event, _, name in log.seen if name == "work"] == [
        "call",
        "line",
        "line",
        "line",
        "return",
    ]


class Debugger(bdb.Bdb):
    def __init__(self) -> None:
        super().__init__()
        self.stops: list[int] = []

    def user_line(self, frame: FrameType) -> None:
        if frame.f_code.co_name == "work":
            self.stops.append(frame.f_lineno)
        self.set_continue() if len(self.stops) > 5 else self.set_step()


def test_a_debugger_that_steps_still_steps() -> None:
    names: list[str] = []
    debugger = Debugger()
    old = sys.gettrace()

    def program() -> None:
        with watch_lines(
            lambda e: names.extend(c.name for c in e.changes), codes=[code_of(work)], arrays=True
        ):
            work(X)

    try:
        debugger.runcall(program)
    finally:
        sys.settrace(old)
    first = code_of(work).co_firstlineno
    assert debugger.stops == [first + 1, first + 2, first + 3]
    assert names == ["y", "z"]


def test_a_debugger_stops_in_frames_that_ran_unwatched_before() -> None:
    """We switch off line events of frames nobody wants; a debugger must find them on again."""
    log = Log()
    old = sys.gettrace()

    def unwatched(n: int) -> None:
        with watch_lines(lambda e: None, codes=[code_of(work)]):
            n = inner(n)
        sys.settrace(log)
        sys._getframe().f_trace = local
        n = n + 1
        sys.settrace(old)

    lines: list[int] = []

    def local(frame: FrameType, event: str, arg: object) -> Any:
        lines.append(frame.f_lineno)
        return local

    def inner(n: int) -> int:
        n += 1
        return n

    unwatched(1)
    first = code_of(unwatched).co_firstlineno
    assert first + 5 in lines


def test_a_tracer_set_and_taken_off_while_we_watch_leaves_us_on() -> None:
    names: list[str] = []
    with watch_lines(
        lambda e: names.extend(c.name for c in e.changes), codes=[code_of(work)], arrays=True
    ):
        old = sys.gettrace()
        sys.settrace(Log())
        helper(1)
        sys.settrace(old)
        work(X)
    assert names == ["y", "z"]
    assert not isinstance(sys.gettrace(), Log)


def test_coverage_counts_the_same_lines() -> None:
    coverage = pytest.importorskip("coverage")
    if sys.gettrace() is not None:
        pytest.skip("something traces already")

    def measure(is_watched: bool) -> list[int]:
        measuring = coverage.Coverage(data_file=None, include=[__file__])
        measuring.start()
        try:
            if is_watched:
                with watch_lines(lambda e: None, codes=[code_of(work)], arrays=True):
                    work(X)
                    helper(1)
            else:
                work(X)
                helper(1)
        finally:
            measuring.stop()
        first, last = code_of(work).co_firstlineno, code_of(helper).co_firstlineno + 3
        return sorted(
            line for line in measuring.get_data().lines(__file__) or [] if first <= line <= last
        )

    assert measure(True) == measure(False) != []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_a_clear_error_where_no_monitoring_tool_is_left() -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    for tool in (3, 4):
        monitoring.use_tool_id(tool, f"tool {tool}")
    try:
        with pytest.raises(RuntimeError, match=r"sys\.monitoring"):
            watch_lines(lambda e: None)
        assert [monitoring.get_tool(tool) for tool in (3, 4)] == ["tool 3", "tool 4"]
    finally:
        for tool in (3, 4):
            monitoring.free_tool_id(tool)
    with watch_lines(lambda e: None):
        assert monitoring.get_tool(3) == "tensortap"
    assert monitoring.get_tool(3) is None


def test_another_tracer_does_not_hear_of_the_statements_in_a_line() -> None:
    space = module("def work(x):\n    a = x + 1; b = a * 2; a = b\n    return a\n", "<mine>")
    heard: list[tuple[str, int, bool]] = []
    told: list[tuple[int, str]] = []

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != "<mine>":
            return None
        heard.append((event, frame.f_lineno, frame.f_trace_opcodes))
        return tracer

    def keep(event: Any) -> None:
        told.extend((event.line, change.name) for change in event.changes)

    sys.settrace(tracer)
    try:
        with watch_lines(keep, files=["<mine>"], arrays=True):
            space["work"](np.ones(2))
    finally:
        sys.settrace(None)
    assert told == [(2, "a"), (2, "b"), (2, "a")]
    assert heard == [
        (*event, False) for event in [("call", 1), ("line", 2), ("line", 3), ("return", 3)]
    ]


def test_who_stops_in_the_middle_of_a_line_leaves_the_frame_as_it_was() -> None:
    def keep(event: Any) -> None: ...

    def work() -> list[bool]:
        a = np.ones(2)
        b = a + 1; watch.close(); c = b + 1; found = [sys._getframe().f_trace_opcodes]  # fmt: skip  # noqa: E702, F841
        return [*found, sys._getframe().f_trace_opcodes]

    watch = watch_lines(keep, files=[__file__], arrays=True)
    try:
        assert work() == [False, False]
    finally:
        watch.close()
