"""Contexts and savers in threads, tasks, other folders, copies, and torch's own transforms."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import json
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from versions import needs_exchange_table  # noqa: E402

from tensortap.spy import (  # noqa: E402
    CallTracer,
    DebugContext,
    TensorSaver,
    get_debug_context,
    spy_save,
)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def load(path: Path) -> Any:
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("saver", [None, 3, "debug_tensors"])
def test_a_context_is_of_a_saver(saver: Any) -> None:
    with pytest.raises(TypeError, match=f"saver must be a TensorSaver, .* not {saver!r}"):
        DebugContext(saver)


# ---- one object, entered in several places


def test_two_threads_may_be_in_the_same_context_at_once(tmp_path: Path) -> None:
    context = DebugContext(TensorSaver(tmp_path))
    both_in, first_out = threading.Barrier(2), threading.Event()
    left: list[object] = []

    def work(name: str) -> None:
        with context:
            both_in.wait(120)
            if name == "second":
                first_out.wait(120)
            spy_save(name, torch.ones(1))
        left.append(get_debug_context())
        first_out.set()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert left == [None, None]
    assert names(tmp_path) == ["manual.first.call0.pt", "manual.second.call0.pt"]


def test_two_tasks_may_be_in_the_same_context_at_once(tmp_path: Path) -> None:
    context = DebugContext(TensorSaver(tmp_path))

    async def work(name: str, turns: int) -> object:
        with context:
            for _ in range(turns):
                await asyncio.sleep(0)
            spy_save(name, torch.ones(1))
        return get_debug_context()

    async def main() -> list[object]:
        return list(await asyncio.gather(work("a", 1), work("b", 5), work("c", 3)))

    assert asyncio.run(main()) == [None, None, None]
    assert len(names(tmp_path)) == 3


def test_a_context_left_elsewhere_changes_nothing_there(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    here, there = DebugContext(saver, "here"), DebugContext(saver, "there")
    contextvars.copy_context().run(there.__enter__)
    with here:
        there.__exit__(None, None, None)  # as an asynchronous fixture does
        assert get_debug_context() is here


def test_contexts_may_be_left_in_any_order(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    first, second = DebugContext(saver, "first"), DebugContext(saver, "second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert get_debug_context() is second
    second.__exit__(None, None, None)
    assert get_debug_context() is None


# ---- folders


def test_a_program_that_changes_its_folder_finds_its_files_in_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saver = TensorSaver("debug")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with DebugContext(saver):
        spy_save("a", torch.ones(1))
        os.chdir(elsewhere)
        spy_save("b", torch.ones(1))
    saver.save("c", torch.ones(1))
    assert len(names(tmp_path / "debug")) == 3
    assert names(elsewhere) == []


@pytest.mark.parametrize("format", ["pt", "run"])
def test_a_saver_that_is_given_another_folder_goes_there(tmp_path: Path, format: str) -> None:
    saver = TensorSaver(tmp_path / "one", format=format)
    saver.save("t", torch.ones(1))
    saver.output_dir = tmp_path / "two"
    saver.output_dir.mkdir()
    saver.save("t", torch.ones(1))
    saver.close()
    assert len(names(tmp_path / "one")) == len(names(tmp_path / "two")) == 1


def test_a_call_index_is_a_number_and_leads_nowhere_else(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path / "in")
    (tmp_path / "in" / "t.call0").mkdir()
    with pytest.raises(TypeError):
        saver.save("t", torch.ones(1), call_idx="0/../../out")
    assert names(tmp_path) == ["in"]


def test_what_torch_writes_itself_fails_at_the_end_of_the_context_too(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path / "gone")
    went_on = False
    missing = pytest.raises(OSError, match=r"gone/manual\.sparse\.call0\.pt: No such file")
    with missing, DebugContext(saver):
        (tmp_path / "gone").rmdir()
        spy_save("sparse", torch.eye(2).to_sparse())
        went_on = True
    assert went_on


# ---- copies


class Holder(nn.Module):
    """Keeps its debuggers, as people do."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.saver = TensorSaver(folder / "tensors", format="npy")
        self.saver.register_modules(self)
        self.tracer = CallTracer(folder / "traces")
        self.tracer.register_hooks(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spy_save("x", x, self)
        return x


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_model_that_holds_its_debuggers_can_be_copied(
    tmp_path: Path, copied: Callable[[nn.Module], Any]
) -> None:
    model = Holder(tmp_path)
    model.saver.save("t", torch.ones(1))
    other = copied(model)
    other(torch.ones(1))
    assert (other.tracer.call_trace, model.tracer.call_trace) == ([], [])
    assert other.saver.get_module_path(model) == "unknown"  # modules are known by their ids
    other.saver.register_modules(other)
    other.tracer.register_hooks(other)
    with DebugContext(other.saver):
        other(torch.ones(1))
    other.saver.save("t", torch.ones(1))
    assert other.tracer.call_trace == ["root"]
    assert names(tmp_path / "tensors") == ["root.x.call0.npy", "t.call0.npy", "t.call1.npy"]
    assert model.saver.call_counts == {"t": 1}


# ---- inside of torch's transforms


X = torch.arange(6.0).reshape(3, 2)


def looked_at(x: torch.Tensor) -> torch.Tensor:
    spy_save("x", x)
    spy_save("n", x, norm_only=True)
    spy_save("s", x, stats_only=True)
    return (x * x).sum()


@needs_exchange_table
@pytest.mark.parametrize(
    ("transformed", "shown"),
    [
        (lambda: torch.func.grad(looked_at)(X), X),
        (lambda: torch.func.vmap(looked_at)(X), X),
        (lambda: torch.func.vmap(looked_at, in_dims=1)(X), X.T),
        (lambda: torch.func.vmap(torch.func.grad(looked_at))(X), X),
        (lambda: torch.func.grad(lambda x: torch.func.vmap(looked_at)(x).sum())(X), X),
        (lambda: torch.func.jvp(looked_at, (X,), (X,))[1], X),
    ],
)
def test_inside_of_vmap_and_grad_all_of_the_batch_is_saved(
    tmp_path: Path, transformed: Callable[[], torch.Tensor], shown: torch.Tensor
) -> None:
    expected = transformed()
    with DebugContext(TensorSaver(tmp_path)):
        assert torch.equal(transformed(), expected)
    assert torch.equal(load(tmp_path / "manual.x.call0.pt"), shown)
    norms = load(tmp_path / "manual.n.call0.pt")
    assert torch.allclose(norms, torch.linalg.vector_norm(shown, dim=1))
    stats = json.loads((tmp_path / "manual.s.call0.json").read_text())
    assert (stats["count"], stats["max"]) == (6, 5.0)


def test_backward_and_checkpointing_save_too(tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            spy_save("gradient", gradient)
            return gradient * 2

    def block(x: torch.Tensor) -> torch.Tensor:
        y = Doubled.apply(x)
        spy_save("y", y)
        return y.sin()

    x = torch.ones(2, requires_grad=True)
    with DebugContext(TensorSaver(tmp_path)):
        checkpoint(block, x, use_reentrant=False).sum().backward()
    assert torch.allclose(x.grad, 2 * torch.cos(torch.tensor([2.0, 2.0])))
    assert torch.equal(load(tmp_path / "manual.y.call0.pt"), torch.tensor([2.0, 2.0]))
    assert "manual.gradient.call0.pt" in names(tmp_path)


@needs_exchange_table
def test_saving_goes_through_no_operation_of_torch(tmp_path: Path) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, *_: Any) -> Any:
            raise AssertionError(func)

    t = torch.ones(3, 4).T
    with DebugContext(TensorSaver(tmp_path)), Seen():
        spy_save("t", t)
    assert torch.equal(load(tmp_path / "manual.t.call0.pt"), t)


class Looking(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        spy_save("y", y, self)
        return y + 1


def test_a_compiled_model_saves_at_a_graph_break(tmp_path: Path) -> None:
    model = Looking()
    saver = TensorSaver(tmp_path)
    saver.register_modules(model)
    compiled = torch.compile(model, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
    assert names(tmp_path) == []
    with DebugContext(saver):
        compiled(torch.ones(2))
    assert names(tmp_path) == ["root.y.call0.pt"]


def test_a_whole_graph_may_be_compiled_when_dynamo_is_told_to_ignore_it() -> None:
    import torch._dynamo

    if not hasattr(torch._dynamo.config, "ignore_logging_functions"):
        pytest.skip("this torch cannot be told to ignore functions")
    ignored = torch._dynamo.config.ignore_logging_functions
    ignored.add(spy_save)
    try:
        whole = torch.compile(Looking(), backend="eager", fullgraph=True)
        assert torch.equal(whole(torch.ones(2)), torch.full((2,), 3.0))
    finally:
        ignored.remove(spy_save)
