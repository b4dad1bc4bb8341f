"""When a value is kept: what counts as another value than the last one."""

from __future__ import annotations

import collections
import copy

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tensortap.trace import ModelTracer, Variable  # noqa: E402


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


def traced(wanted, model, **options):
    x = torch.randn(2, 4)
    with ModelTracer(model, wanted, **options) as tracer:
        model(x)
    return tracer.results, model, [x], []


def test_the_same_tensor_is_kept_once_across_iterations():
    model, x = Model(), torch.randn(2, 4)
    with ModelTracer(model, ["forward.x", "forward"]) as tracer:
        for _ in range(3):
            model(x)
        x += 1
        model(x)
    assert tracer.results["forward.x"].iterations == [1, 4]
    assert tracer.results["forward"].iterations == [1, 2, 3, 4]


def test_keep_always_keeps_it_each_iteration():
    model, x = Model(), torch.randn(2, 4)
    with ModelTracer(model, ["forward.x"], keep="always") as tracer:
        for _ in range(3):
            model(x)
    assert tracer.results["forward.x"].iterations == [1, 2, 3]


def test_keep_content_compares_contents():
    model, x = Model(), torch.randn(2, 4)
    with ModelTracer(model, Variable("forward.x", keep="content")) as tracer:
        model(x)
        model(x.clone())
        model(x + 1)
    assert tracer.results["forward.x"].iterations == [1, 3]


def test_new_tensors_at_an_old_address_are_told_apart():
    class Fresh(nn.Module):
        def forward(self, x):
            for i in range(200):
                y = torch.full((3,), float(i))
                del y
                y = torch.full((3,), float(i) + 0.5)
            return y

    results, *_ = traced("forward.y", Fresh())
    assert [float(v[0]) for v in results["forward.y"].values] == [i / 2 for i in range(400)]


def test_writes_past_the_version_counter_are_seen():
    class Sly(nn.Module):
        def forward(self, x):
            y = x.clone()
            y.data.add_(1)
            y.numpy()[:] = 7
            return y

    results, _, inputs, _ = traced("forward.y", Sly())
    kept = results["forward.y"].values
    assert [torch.equal(a, b) for a, b in zip(kept, (inputs[0], inputs[0] + 1), strict=False)] == [
        True,
        True,
    ]
    assert float(kept[2][0, 0]) == 7


def test_inference_tensors_are_followed_by_contents():
    class Changes(nn.Module):
        def forward(self, x):
            y = x * 1
            y.add_(1)
            return y

    model, x = Changes(), torch.zeros(2)
    with torch.inference_mode(), ModelTracer(model, ["forward.y"]) as tracer:
        model(x)
    assert [v.tolist() for v in tracer.results["forward.y"].values] == [[0, 0], [1, 1]]
    assert not tracer.results["forward.y"].values[0].is_inference()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([-1], [-2]),  # of one hash, for Python
        ([-1.0], [-2.0]),
        ({"a": 0}, {"a": 2**61 - 1}),
        ({1}, {1, 2}),
        (bytearray(b"a"), bytearray(b"b")),
        (collections.deque([1]), collections.deque([2])),
    ],
    ids=repr,
)
def test_a_container_is_kept_again_when_what_it_holds_is_another(first, second):
    class Changes(nn.Module):
        def forward(self, x):
            held = copy.copy(first)
            held.clear()
            held.extend(second) if hasattr(held, "extend") else held.update(second)
            return x

    results, *_ = traced("forward.held", Changes())
    assert results["forward.held"].values == [first, type(first)(), second]


def test_variables_of_one_name_keep_their_own_results():
    model = Model()
    trained, evaluated = Variable("forward"), Variable("forward", mode="eval")
    with ModelTracer(model, [trained, evaluated]) as tracer:
        model(torch.zeros(1, 4))
        model.eval()(torch.ones(1, 4))
    for _ in range(2):
        assert len(tracer.results["forward"].values) == 2
    assert len(trained.results["forward"].values) == len(evaluated.results["forward"].values) == 1


def test_a_callback_may_hold_the_lists_of_its_batch():
    held = []

    def hold(name, values, iterations, ranks):
        held.append((values, iterations, ranks))

    model = Model()
    with ModelTracer(model, "forward", post_gather_callbacks=[hold]) as tracer:
        for _ in range(3):
            model(torch.randn(1, 4))
    assert [len(values) for values, *_ in held] == [1, 1, 1]
    assert [iterations for _, iterations, _ in held] == [[1], [2], [3]]
    assert tracer.results["forward"].iterations == [1, 2, 3]


def test_numbers_with_one_hash_are_two_values():
    class Holds(nn.Module):
        def forward(self, x, n):
            held = [n]
            return x + held[0]

    assert hash(-1) == hash(-2)
    model = Holds()
    with ModelTracer(model, ["forward.held"], keep="content") as tracer:
        for n in (-1, -2, -2, -1):
            model(torch.ones(1), n)
    assert tracer.results["forward.held"].values == [[-1], [-2], [-1]]


def test_views_of_one_memory_are_kept_as_they_are():
    class Views(nn.Module):
        def forward(self, x):
            turned = x.T
            flat = x.view(-1)
            return turned.sum() + flat.sum()

    model, x = Views(), torch.arange(6.0).reshape(2, 3)
    with ModelTracer(model, ["forward.x", "forward.turned", "forward.flat"]) as tracer:
        model(x)
    for name, expected in (("x", x), ("turned", x.T), ("flat", x.view(-1))):
        assert torch.equal(tracer.results[f"forward.{name}"].values[0], expected)
