"""A watched compiled model does what its program says, also after the program changes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MethodType
from typing import Any
from unittest import mock

import pytest

import tensortap as tt

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from torch import nn  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402
from versions import needs_probes  # noqa: E402

X = torch.ones(2, 4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return self.fc(x).square() * scale + 1


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()


def zeros(self: nn.Module, x: Any) -> Any:
    return self.fc(x) * 0


@contextmanager
def class_replaced(_: nn.Module) -> Iterator[None]:
    with mock.patch.object(Net, "forward", zeros):
        yield


@contextmanager
def class_replaced_by_what_is_no_function(model: nn.Module) -> Iterator[None]:
    with mock.patch.object(Net, "forward", mock.MagicMock(side_effect=lambda x: zeros(model, x))):
        yield


@contextmanager
def instance_replaced(model: nn.Module) -> Iterator[None]:
    with mock.patch.object(model, "forward", MethodType(zeros, model)):
        yield


@contextmanager
def instance_set_and_deleted(model: nn.Module) -> Iterator[None]:
    model.forward = MethodType(zeros, model)
    yield
    del model.forward


WAYS = [
    class_replaced,
    class_replaced_by_what_is_no_function,
    instance_replaced,
    instance_set_and_deleted,
]


def assert_all(model: nn.Module, compiled: Callable[..., Any], *, is_replaced: bool) -> None:
    for call in (model, model.forward, compiled):
        assert bool((call(X) == 0).all()) == is_replaced
        assert bool((call(X) >= 1).all()) != is_replaced


@pytest.mark.parametrize("replaced", WAYS)
def test_a_forward_that_replaces_another_is_called(
    tmp_path: Path, replaced: Callable[[nn.Module], Any]
) -> None:
    model = Net()
    compiled = torch.compile(model, backend="eager")
    with tt.record(tmp_path / "run"):
        compiled(X)
        with replaced(model):  # before it is watched
            watched = tt.watch(model)
            assert_all(model, compiled, is_replaced=True)
        assert_all(model, compiled, is_replaced=False)
        with replaced(model):  # after that
            assert_all(model, compiled, is_replaced=True)
        assert_all(model, compiled, is_replaced=False)
        with replaced(model):  # while it is removed
            watched.remove()
            assert_all(model, compiled, is_replaced=True)
        assert_all(model, compiled, is_replaced=False)


@needs_probes
def test_a_watched_forward_looks_as_before(tmp_path: Path) -> None:
    model, hooked = Net(), Net()
    hooked.register_forward_hook(lambda module, args, output: output * 0)
    compiled = torch.compile(model, backend="eager")
    with tt.record(tmp_path / "run"):
        tt.watch(model)
        compiled(X)
        tt.watch(hooked)
        assert "forward" in model.__dict__
        assert inspect.signature(model.forward) == inspect.signature(Net().forward)
        assert inspect.getfullargspec(model.forward) == inspect.getfullargspec(Net().forward)
        assert inspect.getsource(model.forward) == inspect.getsource(Net.forward)
        assert inspect.unwrap(model.forward) is Net.forward
        assert not hooked(X).any()
        assert not torch.compile(hooked, backend="eager")(X).any()


@needs_probes
def test_a_model_compiled_by_its_method_after_watch_is_seen_whole(tmp_path: Path) -> None:
    model = nn.Sequential(Net(), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(tmp_path / "run"):
        watched = tt.watch(model)
        model.compile(backend="eager")
        model[0].compile(backend="eager")
        inner = model._compiled_call_impl.inner
        for _ in range(2):
            model(X).sum().backward()
            optimizer.step()
        watched.remove()
        watched = tt.watch(model)
        model._compiled_call_impl = None  # as if it had never been compiled
        model(X).sum().backward()
        optimizer.step()
        watched.remove()
        assert model._compiled_call_impl is not inner
    run = tt.open(tmp_path / "run")
    assert sorted(run.names("activation/*")) == [
        f"activation/{name}" for name in ("(root)", "0", "0.fc", "1")
    ]
    for name in run.names("activation/*"):
        assert run.series(name, "mean")[0].tolist() == [0, 1, 2], name


def test_a_compiled_training_step_has_the_frames_of_the_plain_one(tmp_path: Path) -> None:
    def train() -> tuple[Any, ...]:
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        @torch.compile(backend="eager")
        def step() -> Any:
            optimizer.zero_grad()
            loss = model(X).mean()
            loss.backward()
            optimizer.step()
            return loss

        with tt.record(tmp_path / "run") if is_watched else mock.MagicMock():
            if is_watched:
                tt.watch(model)
            losses = [step().item() for _ in range(3)]
        stats = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
        return losses, dict(counters["frames"]), stats, torch._dynamo.utils.compile_times("csv")[0]

    is_watched = False
    plain = train()
    is_watched = True
    assert train() == plain
