"""verify() tells the truth: of models that watching leaves alone, and of one it would not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensortap as tt

torch = pytest.importorskip("torch")


def training(model: Any, x: Any, optimizer: Any) -> Callable[[], Any]:
    def step() -> Any:
        optimizer.zero_grad()
        out = model(x)
        loss = (out[0] if isinstance(out, tuple) else out).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def mlp() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)
    )


def cnn() -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)
    )


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad])
def test_training_with_dropout_is_the_same_with_and_without(kind: Any) -> None:
    torch.manual_seed(0)
    model = mlp()
    report = tt.verify(
        training(model, torch.randn(4, 8), optimizer := kind(model.parameters(), lr=0.1)),
        model=model,
        optimizer=optimizer,
        steps=3,
    )
    assert report, report
    assert report.compared > 10


def test_batch_norm_transformer_and_lstm_are_the_same() -> None:
    torch.manual_seed(0)
    convolution = cnn()
    convolution(torch.randn(2, 3, 8, 8))
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    for model, x in (
        (convolution, torch.randn(2, 3, 8, 8)),
        (layer, torch.randn(2, 5, 16)),
        (torch.nn.LSTM(4, 8), torch.randn(3, 2, 4)),
    ):
        optimizer = torch.optim.Adam(model.parameters())
        report = tt.verify(training(model, x, optimizer), model=model, optimizer=optimizer, steps=2)
        assert report, report


def test_everything_is_afterwards_as_it_was_before() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    step = training(model, torch.randn(4, 8), optimizer)
    step()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    objects = [id(p) for p in model.parameters()], [id(p.grad) for p in model.parameters()]
    grads = [p.grad.clone() for p in model.parameters()]
    moments = [state["exp_avg"].clone() for state in optimizer.state.values()]
    generators = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()

    def fn() -> Any:
        random.random()
        np.random.rand()
        return step() + torch.rand(1)

    assert tt.verify(fn, model=model, optimizer=optimizer, steps=2)
    assert all(before[name].equal(value) for name, value in model.state_dict().items())
    assert objects == (
        [id(p) for p in model.parameters()],
        [id(p.grad) for p in model.parameters()],
    )
    assert all(a.equal(p.grad) for a, p in zip(grads, model.parameters(), strict=True))
    for kept, state in zip(moments, optimizer.state.values(), strict=True):
        assert kept.equal(state["exp_avg"])
    assert generators[0].equal(torch.get_rng_state())
    assert generators[1] == random.getstate()
    np.testing.assert_array_equal(generators[2], np.random.get_state()[1])
    assert "_compiled_call_impl" not in model.__dict__


class Disturbed(torch.nn.Linear):  # type: ignore[misc, name-defined]
    """Gives something else when it is watched."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) + float("_compiled_call_impl" in self.__dict__)


def test_a_model_that_watching_changes_is_reported_by_name() -> None:
    torch.manual_seed(0)
    model = Disturbed(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = training(model, torch.randn(4, 4), optimizer)
    report = tt.verify(step, model=model, optimizer=optimizer)
    assert not report
    assert report.repeats
    assert {"result.0", "parameter/weight", "gradient/bias"} <= set(report.differs)
    assert "parameter/weight" in str(report)


def test_a_function_that_does_not_repeat_itself_is_said_to() -> None:
    model = torch.nn.Linear(2, 1)
    counter = iter(range(100))
    report = tt.verify(lambda: model(torch.ones(1, 2)) + next(counter), model=model)
    assert not report
    assert not report.repeats
    assert "says nothing" in str(report)


def test_an_exception_comes_through_and_everything_is_put_back() -> None:
    model = torch.nn.Linear(2, 1)
    before = model.weight.clone()

    def fn() -> None:
        with torch.no_grad():
            model.weight.add_(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tt.verify(fn, model=model)
    assert before.equal(model.weight)


def test_wrong_arguments_are_named() -> None:
    model = torch.nn.Linear(2, 1)
    with pytest.raises(TypeError, match="fn must be"):
        tt.verify(3, model=model)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="model must be"):
        tt.verify(lambda: None, model=3)
    with pytest.raises(ValueError, match="steps must be"):
        tt.verify(lambda: None, model=model, steps=0)
