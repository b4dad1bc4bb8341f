"""torch.compile and the line source evaluate frames both: neither is in the other's way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from line_files import OTHER, evaluator, module
from line_lab import watch_lines

torch = pytest.importorskip("torch")

USER = """
def user(x, act):
    y = x + 1
    act()
    z = y * 2
    return z.sum()

def plain(x):
    p = x + 1
    return p
"""


@pytest.fixture
def user() -> Iterator[dict[str, Any]]:
    """Give functions of a file that is selected, one compiled; the same compiler for every test."""
    torch._dynamo.reset()
    space = module(USER, "<mine>", torch=torch)
    space["compiled"] = torch.compile(space["user"], backend="eager")
    yield space
    torch._dynamo.reset()


def watch(told: list[str]) -> Any:
    return watch_lines(
        lambda event: told.extend(change.name for change in event.changes), files=["<mine>"]
    )


def acting(action: Callable[[], object], evaluators: list[int | None]) -> Callable[[], None]:
    """Return a function that the compiler cannot take in: it runs as it is, under the compiler."""

    def act() -> None:
        torch._dynamo.graph_break()
        evaluators.append(evaluator())
        action()

    return act


def nothing() -> None: ...


def test_a_compiled_function_gives_the_same_and_is_compiled_once(user: dict[str, Any]) -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(user["plain"], backend=backend, fullgraph=True)
    told: list[str] = []
    x = torch.ones(3)
    with watch(told):
        assert torch.equal(compiled(x), x + 1)
        assert torch.equal(compiled(x), x + 1)
        user["plain"](x)
    assert torch.equal(compiled(x), x + 1)
    assert len(graphs) == 1
    assert told[-1] == "p"


def test_we_come_and_go_while_the_compiler_evaluates_frames(user: dict[str, Any]) -> None:
    """Start and stop in each of: outside, inside; what is told of plain code stays right."""
    before, told, seen = evaluator(), [], []
    x, want = torch.ones(3), torch.tensor(12.0)
    watches: list[Any] = []

    def start() -> None:
        watches.append(watch(told))

    def stop() -> None:
        watches.pop().close()

    for inside in (start, stop), (start, nothing), (nothing, stop), (nothing, nothing):
        told.clear()
        first, last = inside
        if first is nothing:
            start()
        assert torch.equal(user["compiled"](x, acting(first, seen)), want)
        told.clear()
        user["plain"](x)
        assert told == ["p"], inside
        assert torch.equal(user["compiled"](x, acting(last, seen)), want)
        if last is nothing:
            stop()
        told.clear()
        user["plain"](x)
        assert told == []
        assert sys.gettrace() is None
        assert evaluator() == before
    if torch.__version__ >= (2, 7):  # before, the compiler's is never in place where we are called
        assert any(one != before for one in seen)


def test_stopped_and_started_again_inside_nothing_is_lost(user: dict[str, Any]) -> None:
    before, told, seen = evaluator(), [], []
    x = torch.ones(3)
    watches = [watch(told)]

    def again() -> None:
        watches.pop().close()
        watches.append(watch(told))

    assert torch.equal(user["compiled"](x, acting(again, seen)), torch.tensor(12.0))
    told.clear()
    other = module(OTHER, "<other>")
    other["calling"](user["plain"], x)
    watches.pop().close()
    assert told == ["p"]
    assert evaluator() == before


def test_code_called_while_the_compiler_evaluates_is_told(user: dict[str, Any]) -> None:
    told: list[str] = []
    x = torch.ones(3)
    other = module(OTHER, "<other>")
    calls = acting(lambda: other["calling"](user["plain"], x), [])
    torch._dynamo.config.suppress_errors = False
    with watch(told):
        user["compiled"](x, torch._dynamo.disable(calls))
    assert "p" in told
