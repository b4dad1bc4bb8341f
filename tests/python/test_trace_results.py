"""What a trace gathers, and when: batches behind each other, in one result a name."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from trace_models import Small, ones, run  # noqa: E402

from tensortap.trace import (  # noqa: E402
    GlobalVariableResult,
    ModelTracer,
    Variable,
    stack_tensors,
)


def test_stacks_are_joined_once_however_many_gathers_there_were(monkeypatch):
    joins = []
    cat = torch.cat
    monkeypatch.setattr(torch, "cat", lambda parts: joins.append(len(parts)) or cat(parts))
    variable = Variable("forward.x", post_gather_callbacks=[stack_tensors])
    model = Small()
    with ModelTracer(model, [variable]):
        run(model, 50)
    result = variable.results["forward.x"]
    assert result.values[:, 0, 0].tolist() == [float(i) for i in range(1, 51)]
    assert result.iterations == list(range(1, 51))
    assert result.values is result.values
    assert joins == [50]


def test_a_result_is_a_dataclass_like_any_other():
    given = GlobalVariableResult([1], [0], [7])
    assert given == GlobalVariableResult(iterations=[1], ranks=[0], values=[7])
    assert repr(given) == "GlobalVariableResult(iterations=[1], ranks=[0], values=[7])"
    assert dataclasses.asdict(given) == {"iterations": [1], "ranks": [0], "values": [7]}
    assert pickle.loads(pickle.dumps(given)) == given
    assert GlobalVariableResult().values == []
    assert GlobalVariableResult().values is not GlobalVariableResult().values


def test_a_variable_is_gathered_in_its_own_mode_only():
    gathered = []
    variable = Variable(
        "forward.x",
        mode="train",
        post_gather_callbacks=[lambda name, result: gathered.append(list(result.iterations))],
    )
    model = Small()
    with ModelTracer(model, [variable]) as tracer:
        run(model.train(), 1)
        local = tracer._groups[0]._local_of("forward.x")  # what a gather would take with it
        local.iterations.append(9)
        local.values.append(ones(9))
        run(model.eval(), 2)
        assert gathered == [[1]]
        run(model.train(), 1)
    assert gathered == [[1], [9, 2]]


def test_a_forward_that_raised_is_not_gathered():
    class Fails(nn.Module):
        def forward(self, x):
            y = x + 1
            raise KeyError("mine")

    gathered = []
    model = Fails()
    with ModelTracer(
        model, ["forward.y"], post_gather_callbacks=[lambda name, r: gathered.append(name)]
    ):
        with pytest.raises(KeyError, match="mine"):
            model(ones(1))
        assert gathered == []
    assert gathered == ["forward.y"]
