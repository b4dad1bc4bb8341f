"""Wrappers are looked through: DDP, DataParallel, torch.compile."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch")
from ranks import run_ranks, said  # noqa: E402
from torch import nn  # noqa: E402
from trace_models import C, Small  # noqa: E402

from tensortap.trace import ModelTracer  # noqa: E402

NAMES = ["forward", "forward.x", "fc", "fc.forward.input"]


def check(tracer, count):
    assert set(tracer.results) == set(NAMES)
    for name in NAMES:
        assert tracer.results[name].iterations == list(range(1, count + 1))


def test_data_parallel_is_looked_through():
    model = Small()
    wrapped = nn.DataParallel(model)
    with ModelTracer(wrapped, NAMES) as tracer:
        for _ in range(3):
            wrapped(torch.randn(2, C))
    assert tracer.model is model
    check(tracer, 3)


def replica_of(module):
    copy = module._replicate_for_data_parallel()
    for key, child in module._modules.items():
        copy._modules[key] = replica_of(child)
    for key, parameter in module._parameters.items():
        setattr(copy, key, parameter)
    return copy


class Parallel(nn.DataParallel):
    """There is no second device here: replicas are made as DataParallel makes them."""

    def __init__(self, module):
        super().__init__(module)
        self.device_ids = [0, 1]
        self.replicas = []  # weak references

    def forward(self, x):
        results = []
        for part in x.chunk(2):
            replica = replica_of(self.module)
            self.replicas.append(weakref.ref(replica))
            results.append(replica(part))
        return torch.cat(results)


def test_the_replicas_of_data_parallel_are_followed():
    wrapped = Parallel(Small())
    x = torch.randn(4, C)
    with ModelTracer(wrapped, NAMES) as tracer:
        wrapped(x)
    assert tracer.current_iteration == 1
    assert [v.shape for v in tracer.results["forward.x"].values] == [(2, C), (2, C)]
    assert torch.equal(torch.cat(tracer.results["forward.x"].values), x)
    assert len(tracer.results["fc"].values) == 2
    assert len(tracer.results["fc.forward.input"].values) == 2


def test_a_tracer_that_is_stopped_inside_of_a_replica_lets_go_of_it():
    class Stopping(Small):
        def forward(self, x):
            tracer.__exit__(None, None, None)
            return super().forward(x)

    wrapped = Parallel(Stopping())
    tracer = ModelTracer(wrapped, NAMES)
    tracer.__enter__()
    wrapped(torch.randn(4, C))
    gc.collect()  # torch's modules hold themselves
    assert [replica() for replica in wrapped.replicas] == [None, None]


def trace_either(rank, world):
    model = Small()
    wrapped = nn.parallel.DistributedDataParallel(model)
    for given in (model, wrapped):
        with ModelTracer(given, NAMES) as tracer:
            for _ in range(2):
                wrapped(torch.randn(2, C)).sum().backward()
        assert tracer.model is model
        check(tracer, 2)


def test_ddp_is_looked_through_whichever_of_the_two_is_given():
    said(run_ranks(1, trace_either))


class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(C, C)
        self.head = nn.Linear(C, C)

    @torch._dynamo.disable
    def eager(self, x):
        y = x * 2
        return y

    def forward(self, x):
        h = self.fc(x)
        h = self.eager(h)
        return self.head(h)


@pytest.mark.parametrize("how", ["torch.compile", "model.compile"])
def test_of_a_compiled_model_the_eager_parts_are_seen_and_the_rest_is_named(how):
    torch._dynamo.reset()
    model = Partly()
    if how == "torch.compile":
        called = torch.compile(model, backend="eager")
    else:
        model.compile(backend="eager")
        called = model
    x = torch.randn(2, C)
    with (
        pytest.warns(RuntimeWarning) as told,
        ModelTracer(called, ["forward", "eager.y", "forward.h"]) as tracer,
    ):
        outputs = [called(x + i) for i in range(2)]
    texts = [str(w.message) for w in told]
    assert any("'forward.h' matched nothing" in t and "compiled" in t for t in texts), texts
    assert tracer.results["forward"].iterations == [1, 2]
    assert torch.equal(tracer.results["forward"].values[1], outputs[1])
    assert len(tracer.results["eager.y"].values) == 2
    assert tracer.model is model


def test_a_submodule_that_is_compiled_has_an_output():
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(C, C), torch.compile(nn.Linear(C, C), backend="eager"))
    x = torch.randn(2, C)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.filterwarnings("ignore", "Guards may run slower")  # torch on Python 3.13.0
        with ModelTracer(model, ["1", "0", "forward"]) as tracer:
            out = model(x)
    assert torch.equal(tracer.results["1"].values[0], out)
    assert set(tracer.results) == {"0", "1", "forward"}
