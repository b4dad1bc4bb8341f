"""Consumers are told of module calls."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from listened import SLOT, Failing, X, listen, mlp

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tensortap._core import ModuleConsumer  # noqa: E402


class Again(nn.Module):
    """Calls itself."""

    def forward(self, x: Any, left: int) -> Any:
        return self(x + 1, left - 1) if left else x


def test_every_module_is_told_of_in_the_order_of_return() -> None:
    events: list[Any] = []
    model = mlp()
    listen(model, events)
    out = model(X)
    assert [e.name for e in events] == ["0", "1", "2", "(root)"]
    assert events[-1].output is out
    assert events[-1].module is model
    assert events[0].args[0] is X


def test_before_comes_before_and_sees_arguments_by_name() -> None:
    seen: list[Any] = []
    model = nn.MultiheadAttention(4, 2)
    consumer = ModuleConsumer(before=lambda e: seen.append((e.kwargs, e.output)))
    consumer.add(model, "m")
    x = torch.ones(3, 1, 4)
    model(x, key=x, value=x)
    assert list(seen[0][0]) == ["key", "value"]
    assert seen[0][1] is None


def test_calls_are_counted_from_zero_in_each_step() -> None:
    events: list[Any] = []
    model = mlp()
    consumer = listen(model, events)
    model(X), model(X)
    consumer.step = 1
    model(X)
    assert [e.call for e in events if e.name == "0"] == [0, 1, 0]


def test_recursion_has_depth_and_calls_in_the_order_of_entry() -> None:
    events: list[Any] = []
    model = Again()
    listen(model, events, depth=True)
    model(X, 2)
    assert [(e.depth, e.call) for e in events] == [(2, 2), (1, 1), (0, 0)]


def test_depth_counts_only_ones_own_modules() -> None:
    events: list[Any] = []
    others: list[Any] = []
    model = mlp()
    everyone = listen(model, others)
    mine = ModuleConsumer(after=events.append, depth=True)
    mine.add(model[0], "0")
    model(X)
    assert events[0].depth == 0
    assert len(others) == 4
    everyone.remove()


def test_an_exception_goes_through_unchanged_and_is_shown_to_those_who_ask() -> None:
    events: list[Any] = []
    plain: list[Any] = []
    model = nn.Sequential(Failing())
    listen(model, plain)
    listen(model, events, errors=True)
    with pytest.raises(KeyError, match="mine") as caught:
        model(X)
    assert [e.name for e in events] == ["0", "(root)"]
    assert events[0].exception is caught.value
    assert events[0].output is None
    assert plain == []
    assert caught.value.__context__ is None


def test_a_call_after_an_exception_begins_at_depth_zero() -> None:
    events: list[Any] = []
    model = nn.Sequential(Failing())
    listen(model, events, depth=True, errors=True)
    for _ in range(2):
        with pytest.raises(KeyError):
            model(X)
    assert [e.depth for e in events] == [1, 0, 1, 0]


def test_time_is_given_to_those_who_ask() -> None:
    events: list[Any] = []
    listen(model := mlp(), events, times=True)
    start = time.perf_counter_ns()
    model(X)
    end = time.perf_counter_ns()
    root, first = events[-1], events[0]
    assert start <= root.start <= first.start <= first.end <= root.end <= end


def test_the_phase_is_that_of_the_outermost_module() -> None:
    events: list[Any] = []
    model = mlp()
    listen(model, events)
    model.eval()
    model[0].train()
    model(X)
    model[0](X)
    assert [e.training for e in events] == [False] * 4 + [True]


def test_threads_have_numbers_and_stacks_of_their_own() -> None:
    events: list[Any] = []
    model = mlp()
    listen(model, events, depth=True)
    model(X)
    thread = threading.Thread(target=model, args=(X,))
    thread.start()
    thread.join()
    assert events[0].thread != events[4].thread
    assert [e.depth for e in events] == [1, 1, 1, 0] * 2


def test_consumers_with_selections_of_their_own_share_one_wrap() -> None:
    first: list[Any] = []
    second: list[Any] = []
    model = mlp()
    one = listen(model, first)
    two = ModuleConsumer(after=second.append)
    two.add(model[0], "mine")
    two.add(model[0], "again")  # twice is once
    model(X)
    assert [e.name for e in second] == ["mine"]
    assert len(first) == 4
    one.remove()
    model(X)
    assert len(first) == 4
    assert len(second) == 2
    assert SLOT not in model.__dict__
    two.remove(model[0])
    assert SLOT not in model[0].__dict__


def test_many_consumers_are_all_told() -> None:
    model = nn.Linear(4, 4)
    seen: list[list[Any]] = [[] for _ in range(9)]
    for into in seen:
        listen(model, into)
    model(X), model(X)
    assert [[e.call for e in into] for into in seen] == [[0, 1]] * 9


def test_a_consumer_may_remove_itself_while_it_is_told() -> None:
    events: list[Any] = []
    model = mlp()

    def once(event: Any) -> None:
        events.append(event)
        consumer.remove()

    consumer = ModuleConsumer(after=once)
    for name, module in model.named_modules():
        consumer.add(module, name)
    model(X)
    assert len(events) == 1
    assert all(SLOT not in m.__dict__ for m in model.modules())


def test_what_a_consumer_calls_itself_is_not_told() -> None:
    events: list[Any] = []
    model = mlp()

    def look(event: Any) -> None:
        events.append(event)
        model(X)

    consumer = ModuleConsumer(after=look)
    consumer.add(model, "m")
    model(X)
    assert len(events) == 1


def test_errors_of_a_function_reach_the_program_only_if_wanted() -> None:
    model = mlp()

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    quiet = ModuleConsumer(after=fail, raises=False)
    quiet.add(model, "m")
    model(X)
    assert quiet.errors == 1
    assert isinstance(quiet.error, ZeroDivisionError)
    loud = ModuleConsumer(after=fail)
    loud.add(model, "m")
    with pytest.raises(ZeroDivisionError):
        model(X)
    loud.remove()
    assert model(X).shape == (3, 2)


def test_ctrl_c_in_a_function_reaches_the_program_in_any_case() -> None:
    model = mlp()
    calls = iter([KeyboardInterrupt()])

    def interrupt(_: Any) -> None:
        for error in calls:
            raise error

    quiet = ModuleConsumer(after=interrupt, raises=False)
    quiet.add(model, "m")
    with pytest.raises(KeyboardInterrupt):
        [model(X) for _ in range(2)]  # it comes at the next instruction, wherever that is
    assert quiet.errors == 0


def test_an_objection_before_the_call_keeps_the_module_from_running() -> None:
    events: list[Any] = []
    model = mlp()
    listen(model, events)

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    guard = ModuleConsumer(before=fail)
    guard.add(model, "m")
    with pytest.raises(ZeroDivisionError):
        model(X)
    assert events == []
    guard.remove()
    model(X)
    assert events[0].outermost is False
    assert events[-1].outermost is True


def test_off_is_silent() -> None:
    events: list[Any] = []
    consumer = listen(model := mlp(), events)
    consumer.off = True
    model(X)
    consumer.off = False
    assert events == []
    model(X)
    assert len(events) == 4
