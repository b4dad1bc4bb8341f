"""Consumers are told of module calls, and modules are left as they were."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import pickle
import threading
import time
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tensortap._core import ModuleConsumer  # noqa: E402
from torch import nn  # noqa: E402

SLOT = "_compiled_call_impl"


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def listen(model: nn.Module, into: list[Any], **options: Any) -> ModuleConsumer:
    consumer = ModuleConsumer(after=into.append, **options)
    for name, module in model.named_modules():
        consumer.add(module, name or "(root)")
    return consumer


X = torch.ones(3, 4)


class Failing(nn.Module):
    def forward(self, x: Any) -> Any:
        raise KeyError("mine")


class Mine(nn.Module):
    """Of a file that torch.compile looks into."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.fc(x).relu()


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


# ---- innocence --------------------------------------------------------------


def test_the_users_own_hooks_still_run_and_their_result_is_what_is_seen() -> None:
    events: list[Any] = []
    model = nn.Linear(4, 4)
    model.register_forward_hook(lambda m, a, out: out * 0)
    listen(model, events)
    assert model(X).abs().sum() == 0
    assert events[0].output.abs().sum() == 0


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_and_pickles_have_nothing_of_us(how: Any) -> None:
    events: list[Any] = []
    model = mlp()
    listen(model, events)
    twin = how(model)
    if how is copy.copy:
        assert SLOT not in twin.__dict__
    else:
        assert all(SLOT not in m.__dict__ for m in twin.modules())
        twin(X)
        assert events == []


def test_a_pickle_is_the_same_bytes() -> None:
    model = mlp()
    before = pickle.dumps(model)
    consumer = listen(model, [])
    assert pickle.dumps(model) == before
    consumer.remove()


class OwnState(nn.Linear):
    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_class_that_pickles_its_whole_dict_gets_an_empty_slot(how: Any) -> None:
    events: list[Any] = []
    model = OwnState(4, 4)
    listen(model, events)
    twin = how(model)
    assert twin.__dict__[SLOT] is None
    assert torch.equal(twin(X), model(X))
    assert len(events) == 1


def test_torch_save_and_state_dict_are_the_same() -> None:
    model = mlp()
    before, after = io.BytesIO(), io.BytesIO()
    torch.save(model, before)
    keys = list(model.state_dict())
    consumer = listen(model, [])
    torch.save(model, after)
    assert list(model.state_dict()) == keys
    assert after.getvalue() == before.getvalue()
    consumer.remove()


def test_signature_and_dict_are_as_they_were() -> None:
    model = mlp()
    before = [dict(m.__dict__) for m in model.modules()]
    signature = inspect.signature(model.forward)
    consumer = listen(model, [])
    assert inspect.signature(model.forward) == signature
    assert "forward" not in model.__dict__
    consumer.remove()
    assert [dict(m.__dict__) for m in model.modules()] == before


def test_a_module_is_freed_as_soon_as_it_is_dropped() -> None:
    gc.collect()
    gc.disable()
    try:
        model = mlp()
        weak = [weakref.ref(m) for m in model.modules()] + [
            weakref.ref(p) for p in model.parameters()
        ]
        consumer = ModuleConsumer(after=lambda e: None)
        for name, module in model.named_modules():
            consumer.add(module, name)
        del module
        model(X)
        del model
        assert [w() for w in weak] == [None] * len(weak)
        consumer.remove()
    finally:
        gc.enable()


def test_a_dropped_consumer_that_is_part_of_a_cycle_is_collected() -> None:
    model = mlp()
    consumer = ModuleConsumer(after=lambda e: model)
    consumer.add(model, "m")
    weak = weakref.ref(model)
    del model, consumer
    gc.collect()
    assert weak() is None


def test_what_compile_left_in_the_slot_is_called_and_put_back() -> None:
    events: list[Any] = []
    model = Mine()
    model.compile(backend="eager", fullgraph=True)
    compiled = model.__dict__[SLOT]
    plain = model(X)
    consumer = listen(model, events)
    assert torch.equal(model(X), plain)
    assert [e.name for e in events if e.name == "(root)"] == ["(root)"]
    consumer.remove()
    assert model.__dict__[SLOT] is compiled


def test_a_slot_that_someone_else_has_taken_since_is_left_alone() -> None:
    model = mlp()
    consumer = listen(model, [])
    mine = model._call_impl
    model.__dict__[SLOT] = mine
    consumer.remove()
    assert model.__dict__[SLOT] == mine


def test_a_shallow_copy_of_the_dict_does_not_lose_the_original() -> None:
    events: list[Any] = []
    model = nn.Linear(4, 4)
    consumer = listen(model, events)
    replica = model._replicate_for_data_parallel()
    consumer.add(replica, "replica")
    consumer.remove()
    assert SLOT not in model.__dict__


# ---- the hook, where there is no slot ---------------------------------------


def test_hooks_tell_the_same_as_the_slot() -> None:
    slot: list[Any] = []
    hook: list[Any] = []
    model = mlp()
    by_slot = listen(model, slot, depth=True)
    model(X)
    by_slot.remove()
    by_hook = ModuleConsumer(after=hook.append, depth=True)
    for name, module in model.named_modules():
        by_hook.add(module, name or "(root)", hook=True)
    model(X)
    told = [[(e.name, e.call, e.depth, e.training, e.outermost) for e in es] for es in (slot, hook)]
    assert told[0] == told[1]
    by_hook.remove()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_hooks_see_exceptions_too() -> None:
    events: list[Any] = []
    model = Failing()
    consumer = ModuleConsumer(after=events.append, errors=True, depth=True)
    consumer.add(model, "m", hook=True)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine") as caught:
            model(X)
        assert events[-1].exception is caught.value
    assert [(e.output, e.call, e.depth) for e in events] == [(None, 0, 0), (None, 1, 0)]


def test_copies_and_pickles_of_a_hooked_module_are_not_listened_to() -> None:
    events: list[Any] = []
    model = nn.Linear(4, 4)
    consumer = ModuleConsumer(after=events.append)
    consumer.add(model, "m", hook=True)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(X), model(X))
    assert len(events) == 2


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="before must be a function or None, not int"):
        ModuleConsumer(before=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ModuleConsumer().add(nn.Linear(1, 1), 3)  # type: ignore[arg-type]
