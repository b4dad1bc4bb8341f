"""On Python 3.11 code that is not selected runs untraced, and no event is lost.

The events are compared with those that a sys.settrace function gets of the same program.
"""

from __future__ import annotations

import random
import sys
import threading
from types import CodeType
from typing import Any

import pytest
from line_files import OTHER, evaluator, lines_told, lines_traced, module
from line_lab import watch_lines

IS_OLD = sys.version_info < (3, 12)
old_only = pytest.mark.skipif(not IS_OLD, reason="3.12 and later have sys.monitoring")


# Functions of two files that call one another in every way there is.
BODY = """
def plain(plan):
    result = 0
    for step in plan:
        result += go(step)
    return result

def generated(plan):
    for step in plan:
        yield go(step)

def summed(plan):
    return sum(generated(plan))

def delegating(plan):
    got = yield from generated(plan)
    return got

def delegated(plan):
    return len(list(delegating(plan)))

def caught(plan):
    try:
        plain(plan)
        raise KeyError(1)
    except (KeyError, ZeroDivisionError):
        return 1

def failing(plan):
    plain(plan)
    return 1 // 0

def thrown(plan):
    running = generated([[], *plan])
    next(running)
    try:
        running.throw(ValueError())
    except ValueError:
        return 2

def sorting(plan):
    return len(sorted(plan, key=go))

def in_class(plan):
    class Inner:
        got = [go(step) for step in plan]
    return len(Inner.got)
"""
NAMES = ["plain", "summed", "delegated", "caught", "failing", "thrown", "sorting", "in_class"]


def programs() -> tuple[dict[str, Any], dict[str, Any]]:
    def go(step: list[Any]) -> int:
        if not step:
            return 1
        where, name, *rest = step
        try:
            return int(files[where][name](rest))
        except ZeroDivisionError:
            return 0

    files = (module(BODY, "<mine>", go=go), module(BODY, "<other>", go=go))
    return files


def plan_of(chance: random.Random, depth: int) -> list[Any]:
    rest = [plan_of(chance, depth - 1) for _ in range(chance.randrange(3))] if depth > 0 else []
    return [chance.randrange(2), chance.choice(NAMES), *rest]


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_calls_between_selected_and_other_code_tell_the_lines_of_settrace(
    seed: int, bare: bool
) -> None:
    files = programs()
    plans = [plan_of(random.Random(f"{seed} {i}"), 4) for i in range(4)]

    def run() -> None:
        for where in (0, 1):
            files[where]["plain"](plans)

    want = lines_traced(run)
    got = lines_told(run, bare=bare)
    assert want
    assert got == want


@old_only
def test_frames_of_other_code_are_not_heard_of() -> None:
    other = module(OTHER, "<other>")
    mine = module("def f():\n    a = 1\n    return a\n", "<mine>")
    told: list[int] = []
    with watch_lines(line=lambda event: told.append(event.line), files=["<mine>"]):
        assert not other["heard"]()
        assert not other["calling"](other["heard"])
        assert list(other["generator"](mine["f"])) == [True, 1, True]
        assert not other["calling"](other["heard"])
    assert told == [2, 3]


@old_only
def test_the_interpreters_own_evaluation_is_back_afterwards() -> None:
    before = evaluator()
    with watch_lines(lambda event: None, files=["<mine>"]):
        assert evaluator() != before
        with watch_lines(lambda event: None, files=["<mine>"]):
            pass
        assert evaluator() != before
    assert evaluator() == before


def test_code_that_runs_is_heard_when_it_is_selected_later() -> None:
    mine = module(
        """
        def f(come):
            come()
            a = 1
            b = 2
            return a + b
        def outer(come):
            f(come)
            return 3
        """,
        "<mine>",
    )
    told: list[tuple[str, int]] = []
    later: list[Any] = []

    def come() -> None:
        later.append(
            watch_lines(
                line=lambda event: told.append((event.code.co_name, event.line)), files=["<mine>"]
            )
        )

    with watch_lines(lambda event: None, files=["<nobody's>"]):
        mine["outer"](lambda: come())
    later.pop().close()
    assert told == [("f", 4), ("f", 5), ("f", 6), ("outer", 9)]


def test_a_thread_in_other_code_is_heard_when_it_is_selected_later() -> None:
    mine = module(
        """
        def f(ready, go):
            ready.set()
            go.wait()
            a = 1
            return a
        """,
        "<mine>",
    )
    ready, go = threading.Event(), threading.Event()
    told: list[int] = []
    with watch_lines(lambda event: None, files=["<nobody's>"]):
        thread = threading.Thread(target=mine["f"], args=(ready, go))
        thread.start()
        ready.wait()
        with watch_lines(
            line=lambda event: told.append(event.line), files=["<mine>"], threads="all"
        ):
            go.set()
            thread.join()
    assert told == [5, 6]


def test_stopping_and_starting_inside_other_code_loses_nothing() -> None:
    other = module(OTHER, "<other>")
    mine = module("def f():\n    a = 1\n    return a\n", "<mine>")
    told: list[int] = []

    def start() -> Any:
        return watch_lines(line=lambda event: told.append(event.line), files=["<mine>"])

    watches = [start()]

    def again() -> None:
        watches.pop().close()
        mine["f"]()
        watches.append(start())

    def both() -> None:
        other["calling"](other["calling"], again)
        other["calling"](mine["f"])

    other["calling"](both)
    other["calling"](other["calling"], watches.pop().close)
    assert sys.gettrace() is None
    other["calling"](mine["f"])
    assert told == [2, 3]


@old_only
def test_a_thread_takes_our_trace_function_off_after_the_stop() -> None:
    other = module(OTHER, "<other>")
    ready, go = threading.Event(), threading.Event()
    left: list[Any] = []

    def work() -> None:
        ready.set()
        go.wait()
        other["calling"](int)
        left.append(sys.gettrace())

    with watch_lines(lambda event: None, files=["<mine>"]):
        thread = threading.Thread(target=other["calling"], args=(work,))
        thread.start()
        ready.wait()
    go.set()
    thread.join()
    assert left == [None]


@pytest.mark.parametrize("kind", ["trace", "profile"])
def test_a_tracer_or_profiler_that_comes_in_other_code_hears_its_callers(kind: str) -> None:
    other = module(OTHER, "<other>")

    def run() -> list[tuple[str, str]]:
        heard: list[tuple[str, str]] = []

        def hook(frame: Any, event: str, arg: Any) -> Any:
            if frame.f_code.co_filename == "<other>":
                heard.append((frame.f_code.co_name, event))
            return hook

        def come() -> None:
            frame = sys._getframe()
            while frame is not None:  # as a debugger does
                if frame.f_code.co_filename == "<other>" and kind == "trace":
                    frame.f_trace = hook
                frame = frame.f_back  # type: ignore[assignment]
            (sys.settrace if kind == "trace" else sys.setprofile)(hook)

        before = sys.gettrace()
        try:
            other["calling"](other["calling"], come)
            other["calling"](int)
        finally:
            sys.setprofile(None)
            sys.settrace(before)
        return heard

    want = run()
    assert len(want) >= 4
    with watch_lines(lambda event: None, files=["<mine>"]):
        assert run() == want


def test_a_profiler_counts_the_same_calls() -> None:
    import cProfile

    files = programs()
    plans = [plan_of(random.Random(str(i)), 4) for i in range(8)]

    def counts() -> dict[tuple[str, str], int]:
        profile = cProfile.Profile()
        profile.runcall(files[1]["plain"], plans)
        return {
            (entry.code.co_filename, entry.code.co_name): entry.callcount
            for entry in profile.getstats()
            if isinstance(entry.code, CodeType)
        }

    want = counts()
    with watch_lines(lambda event: None, files=["<mine>"]):
        assert counts() == want


def test_an_exception_thrown_into_a_fresh_generator_arrives_though_consumers_are_asked() -> None:
    text = "def generator():\n    yield 1\n"
    with watch_lines(lambda event: None, select=lambda code: len([code]) > 1):
        for _ in range(2):
            fresh = module(text, "<other>")["generator"]()
            with pytest.raises(ValueError, match="sent in"):
                fresh.throw(ValueError("sent in"))


RECURSION = """
def down(n):
    return 0 if n == 0 else 1 + down(n - 1)
def deepest(n):
    try:
        return deepest(n + 1)
    except RecursionError:
        return n
"""


@pytest.mark.parametrize("file", ["<mine>", "<other>"])
def test_recursion_goes_as_deep_as_without_us(file: str) -> None:
    space = module(RECURSION, file)

    def depth() -> int:
        return int(space["deepest"](0))

    depth()  # the first time Python itself may stop one earlier
    want = depth()
    with watch_lines(lambda event: None, files=["<mine>"]):
        assert depth() == want


@pytest.mark.parametrize("file", ["<mine>", "<other>"])
def test_recursion_that_needs_no_stack_without_us_needs_none_with_us(file: str) -> None:
    space = module(RECURSION, file)
    mine = module("def f():\n    a = 1\n    return a\n", "<mine>")
    told: list[str] = []
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(70_000)
    try:
        with watch_lines(line=lambda event: told.append(event.code.co_name), files=["<mine>"]):
            assert space["down"](60_000) == 60_000
            assert told.count("down") == (60_001 if file == "<mine>" else 0)
            mine["f"]()
    finally:
        sys.setrecursionlimit(limit)
    assert told.count("f") == 2
