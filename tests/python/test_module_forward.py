"""A watched module is called as nn.Module would call it, though we take a shorter way."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.modules import module as torch_module  # noqa: E402

import tensortap as tt  # noqa: E402

X = torch.ones(2, 3)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[nn.Linear]:
    """Give a watched layer that has been called before, so that all is known of it."""
    layer = nn.Linear(3, 3)
    with tt.record(tmp_path / "run", model=layer):
        layer(X)
        layer(X)
        yield layer


HOOKS: dict[str, Callable[[nn.Module, Any], Any]] = {
    "forward": lambda m, f: m.register_forward_hook(lambda *_: f()),
    "forward pre": lambda m, f: m.register_forward_pre_hook(lambda *_: f()),
    "forward with kwargs": lambda m, f: m.register_forward_hook(lambda *_: f(), with_kwargs=True),
    "forward always": lambda m, f: m.register_forward_hook(lambda *_: f(), always_call=True),
    "full backward": lambda m, f: m.register_full_backward_hook(lambda *_: f()),
    "full backward pre": lambda m, f: m.register_full_backward_pre_hook(lambda *_: f()),
    "every forward": lambda m, f: torch_module.register_module_forward_hook(lambda *_: f()),
    "every forward pre": lambda m, f: torch_module.register_module_forward_pre_hook(lambda *_: f()),
    "every full backward": lambda m, f: torch_module.register_module_full_backward_hook(
        lambda *_: f()
    ),
    "every full backward pre": lambda m, f: torch_module.register_module_full_backward_pre_hook(
        lambda *_: f()
    ),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_added_to_a_watched_module_fires_once_a_call(model: nn.Linear, kind: str) -> None:
    calls: list[None] = []
    handle = HOOKS[kind](model, lambda: calls.append(None))
    try:
        for _ in range(3):
            model(X.clone().requires_grad_()).sum().backward()
    finally:
        handle.remove()
    assert len(calls) == 3
    model(X).sum().backward()
    assert len(calls) == 3


def test_a_forward_set_on_the_instance_is_called(model: nn.Linear) -> None:
    model.forward = lambda x: x + 1  # type: ignore[method-assign]
    assert torch.equal(model(X), X + 1)
    del model.forward
    assert torch.equal(model(X), nn.functional.linear(X, model.weight, model.bias))


def test_a_forward_replaced_in_the_class_is_called(
    model: nn.Linear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x * 5)
    assert torch.equal(model(X), X * 5)
    monkeypatch.undo()
    assert torch.equal(model(X), nn.functional.linear(X, model.weight, model.bias))


def test_a_call_impl_replaced_in_torch_is_called(
    model: nn.Linear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.Module, "_call_impl", lambda self, x: x - 1)
    assert torch.equal(model(X), X - 1)


def test_a_call_impl_whose_code_was_replaced_is_called(
    model: nn.Linear, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(self: Any, *args: Any, **kwargs: Any) -> Any:
        return args[0] - 2

    monkeypatch.setattr(nn.Module._call_impl, "__code__", other.__code__)
    assert torch.equal(model(X), X - 2)


def test_a_call_impl_set_on_the_instance_is_called(model: nn.Linear) -> None:
    model._call_impl = lambda x: x - 3  # type: ignore[method-assign]
    assert torch.equal(model(X), X - 3)


def test_hook_tables_that_were_replaced_are_the_ones_that_count(
    model: nn.Linear, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = OrderedDict({0: lambda *_: X})
    monkeypatch.setattr(torch_module, "_global_forward_hooks", hooks)
    assert model(X) is X
    monkeypatch.undo()
    model._forward_hooks = hooks
    assert model(X) is X


class OwnCall(nn.Linear):
    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return super()._call_impl(*args, **kwargs) * 2


class OwnAttributes(nn.Linear):
    def __getattribute__(self, name: str) -> Any:
        if name == "forward":
            return lambda x: x * 7
        return super().__getattribute__(name)


class OwnDescriptor(nn.Module):
    @property
    def forward(self) -> Any:
        return lambda x: x * 9


@pytest.mark.parametrize("make", [OwnCall, OwnAttributes, lambda *_: OwnDescriptor()])
def test_a_class_with_ways_of_its_own_is_called_its_way(tmp_path: Path, make: Any) -> None:
    layer = make(3, 3)
    expected = layer(X)
    with tt.record(tmp_path / "run", model=layer):
        assert torch.equal(layer(X), expected)
        assert torch.equal(layer(X), expected)


class Takes(nn.Module):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs


@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 40])
def test_arguments_arrive_as_they_were_given(tmp_path: Path, count: int) -> None:
    layer = Takes()
    with tt.record(tmp_path / "run", model=layer):
        args = tuple(range(count))
        assert layer(*args) == (args, {})
        named = {f"n{i}": i for i in args}
        assert layer(*args, **named) == (args, named)


def test_what_forward_raises_arrives(model: nn.Linear) -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model(torch.ones(2, 4))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        model()
    assert model(X).shape == (2, 3)


def test_a_trace_is_the_same_with_its_scopes(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    plain = torch.jit.trace(net, X)
    with tt.record(tmp_path / "run", model=net):
        net(X)
        watched = torch.jit.trace(net, X)
    texts = [re.sub(r"___torch_mangle_\d+\.", "", str(t.inlined_graph)) for t in (watched, plain)]
    assert "scope: __module.1/__module.1.1" in texts[1]
    assert texts[0] == texts[1]


def test_a_module_that_calls_itself_is_called(tmp_path: Path) -> None:
    class Down(nn.Module):
        def forward(self, n: int) -> torch.Tensor:
            return X if n == 0 else self(n - 1) + 1

    layer = Down()
    with tt.record(tmp_path / "run", model=layer):
        assert torch.equal(layer(50), X + 50)
    assert len(tt.open(tmp_path / "run").stats("activation/(root)")) == 51


@pytest.mark.parametrize("change", ["beginning", "arguments"])
def test_a_call_impl_that_begins_otherwise_is_not_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str
) -> None:
    from tensortap.models import call_impl

    assert call_impl.known_code() is nn.Module._call_impl.__code__
    source = inspect.getsource(nn.Module._call_impl)
    old, new = {
        "beginning": (
            "if not (self._backward_hooks or",
            "if not (self.extra or self._backward_hooks or",
        ),
        "arguments": ("(self, *args, **kwargs)", "(self, first, *args, **kwargs)"),
    }[change]
    assert old in source
    file = tmp_path / "changed.py"
    file.write_text(textwrap.dedent(source.replace(old, new, 1)))
    scope: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    monkeypatch.setattr(nn.Module, "_call_impl", scope["_call_impl"])
    assert call_impl.known_code() is None
