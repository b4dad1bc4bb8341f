"""A module that consumers listen to is the same to everyone else, and is left as it was."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import pickle
import threading
import weakref
from typing import Any

import pytest
from listened import SLOT, Failing, X, listen, mlp, replicated

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tensortap._core import ModuleConsumer  # noqa: E402


class Mine(nn.Module):
    """Of a file that torch.compile looks into."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.fc(x).relu()


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
    consumer = ModuleConsumer(after=lambda e, model=model: model)
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


def test_a_replica_of_a_watched_module_runs_with_its_own_parameters() -> None:
    events: list[Any] = []
    model = mlp()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter *= 3
    consumer = listen(model, events)
    replica = replicated(model, 3)
    assert torch.equal(replica(X), twin(X))
    assert torch.equal(model(X), model(X))
    assert not torch.equal(model(X), twin(X))
    # It is told of, under the name of what it replicates.
    assert [e.name for e in events[: len(list(model.modules()))]][-1] == "(root)"
    assert events[0].module is next(iter(replica.children()))
    consumer.remove()
    assert torch.equal(replica(X), twin(X))
    del replica
    assert not any(SLOT in m.__dict__ for m in model.modules())


# ---- replicas, which DataParallel makes of modules and runs in threads -------


def test_replicas_tell_the_same_as_the_module() -> None:
    own: list[Any] = []
    model = mlp()
    consumer = listen(model, own, depth=True)
    model(X)
    count = len(own)
    consumer.step += 1  # calls are counted from 0 again
    replicated(model, 1)(X)
    told = [(e.name, e.call, e.depth, e.training, e.outermost) for e in own]
    assert told[:count] == told[count:]
    consumer.remove()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_replicas_in_threads_are_told_of_with_their_own_tensors() -> None:
    events: list[Any] = []
    model = mlp()
    consumer = listen(model, events)
    replicas = [replicated(model, factor) for factor in (2, 3, 4)]
    expected = [replica(X) for replica in replicas]
    events.clear()
    threads = [threading.Thread(target=replica, args=(X,)) for replica in replicas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for replica, output in zip(replicas, expected, strict=True):
        (whole,) = [e for e in events if e.module is replica]
        assert whole.name == "(root)"
        assert torch.equal(whole.output, output)
    consumer.remove()


def test_exceptions_of_replicas_are_seen_too() -> None:
    events: list[Any] = []
    model = Failing()
    consumer = ModuleConsumer(after=events.append, errors=True, depth=True)
    consumer.add(model, "m")
    replica = model._replicate_for_data_parallel()
    for _ in range(2):
        with pytest.raises(KeyError, match="mine") as caught:
            replica(X)
        assert events[-1].exception is caught.value
        assert events[-1].module is replica
    assert [(e.output, e.call, e.depth) for e in events] == [(None, 0, 0), (None, 1, 0)]


def test_a_call_that_was_interrupted_is_not_around_the_next_call() -> None:
    class Interrupted(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyboardInterrupt

    depths: list[int] = []
    consumer = ModuleConsumer(before=lambda e: depths.append(e.depth), depth=True)
    model = nn.Sequential(nn.Sequential(Interrupted()), nn.ReLU())
    consumer.add(model, "(root)")
    consumer.add(model[0], "0")
    consumer.add(model[0][0], "0.0")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            replicated(model, 1)(X)
    assert depths == [0, 1, 2] * 2


def test_a_replica_runs_the_hooks_of_its_module() -> None:
    seen: list[Any] = []
    model = nn.ReLU()
    consumer = ModuleConsumer(after=lambda e: seen.append(e.output))
    consumer.add(model, "relu")
    other = torch.full((2,), 5.0)
    model.register_forward_pre_hook(lambda _module, _args: (other,))
    model._replicate_for_data_parallel()(X)
    assert torch.equal(seen[0], other)


def test_copies_and_pickles_of_a_replica_are_not_listened_to() -> None:
    events: list[Any] = []
    model = nn.Linear(4, 4)
    consumer = ModuleConsumer(after=events.append)
    consumer.add(model, "m")
    replica = replicated(model, 1)
    for twin in (copy.deepcopy(replica), pickle.loads(pickle.dumps(replica))):
        assert torch.equal(twin(X), model(X))
    assert len(events) == 2


def test_what_is_no_module_is_refused() -> None:
    class Callable:
        def __call__(self, x: Any) -> Any:
            return x

    with pytest.raises(TypeError, match="calls of Callable cannot be seen"):
        ModuleConsumer().add(Callable(), "c")


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="before must be a function or None, not int"):
        ModuleConsumer(before=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ModuleConsumer().add(nn.Linear(1, 1), 3)  # type: ignore[arg-type]
