"""Which value a path leads to, and when it is kept."""

from __future__ import annotations

import warnings
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tensortap.trace import ModelTracer, paths, trace_model  # noqa: E402

Pair = namedtuple("Pair", "left right")


@dataclass
class State:
    hidden: Any
    label: str = "s"


class Slotted:
    __slots__ = ("inside",)

    def __init__(self, inside):
        self.inside = inside


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        attn = self.fc(x)
        attn = attn * 2
        attn.add_(1)
        return attn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.bn = nn.BatchNorm1d(4)
        self.register_buffer("steps", torch.zeros(()))

    def decode(self, y):  # its locals are for the paths alone
        cache = {}
        for name in ("a", "b"):
            cache[name] = {"key": y + len(cache), "_hidden": y}
        nested = [(y, [y * 2]), Pair(y * 3, y * 4)]
        state = State(y * 5)
        slotted = Slotted(y * 6)
        number, text, nothing = 3, "three", None
        array = np.arange(3.0)
        return y + 1

    def forward(self, x):
        self.steps += 1
        h = x
        for layer in self.layers:
            h = layer(h)
        h = self.seq(h)
        return self.bn(self.decode(h))


def traced(wanted, model=None, *, count=1, **options):
    torch.manual_seed(0)
    model = Model() if model is None else model
    inputs = [torch.randn(2, 4) for _ in range(count)]
    with ModelTracer(model, wanted, **options) as tracer:
        outputs = [model(x) for x in inputs]
    return tracer.results, model, inputs, outputs


def test_forward_is_what_the_model_returns_and_forward_x_its_argument():
    results, _, inputs, outputs = traced(["forward", "forward.x"], count=3)
    assert results["forward"].iterations == [1, 2, 3]
    assert results["forward"].ranks == [0, 0, 0]
    for kept, given in zip(results["forward"].values, outputs, strict=True):
        assert torch.equal(kept, given)
    for kept, given in zip(results["forward.x"].values, inputs, strict=True):
        assert torch.equal(kept, given)


def test_kept_tensors_are_detached_copies_on_the_cpu():
    results, _, _, outputs = traced("forward")
    kept = results["forward"].values[0]
    assert kept.device.type == "cpu"
    assert not kept.requires_grad
    assert kept.data_ptr() != outputs[0].data_ptr()


def test_a_submodule_and_its_forward_are_both_there_under_their_own_names():
    results, *_ = traced(["layers.0", "layers.0.forward"])
    assert torch.equal(results["layers.0"].values[0], results["layers.0.forward"].values[0])


def test_a_star_takes_every_submodule():
    results, *_ = traced(["layers.*", "layers.*.forward.attn"])
    assert set(results) == {
        "layers.0",
        "layers.1",
        "layers.0.forward.attn",
        "layers.1.forward.attn",
    }


def test_a_local_that_changes_several_times_is_kept_each_time():
    results, model, inputs, _ = traced("layers.0.forward.attn")
    first = model.layers[0].fc(inputs[0])
    kept = results["layers.0.forward.attn"].values
    assert len(kept) == 3
    for value, expected in zip(kept, (first, first * 2, first * 2 + 1), strict=True):
        assert torch.allclose(value, expected)


def test_torchs_own_functions_are_seen():
    results, *_ = traced(["seq.0.forward.input", "seq.0", "layers.1"])
    assert torch.equal(results["seq.0.forward.input"].values[0], results["layers.1"].values[0])
    assert results["seq.0"].values[0].shape == (2, 4)


@pytest.mark.parametrize(
    ("path", "factor"),
    [
        ("decode.nested.0.0", 1),
        ("decode.nested.0.1.0", 2),
        ("decode.nested.1.0", 3),
        ("decode.nested.1.1", 4),
        ("decode.nested.1.right", 4),
        ("decode.state.hidden", 5),
        ("decode.slotted.inside", 6),
    ],
)
def test_a_path_goes_into_containers_and_objects(path, factor):
    results, *_ = traced([path, "decode.y"])
    assert torch.equal(results[path].values[0], results["decode.y"].values[0] * factor)


def test_stars_go_into_dicts_and_leave_out_private_keys():
    results, *_ = traced(["decode.cache.*.key", "decode.cache.a.*"])
    assert set(results) == {"decode.cache.a.key", "decode.cache.b.key"}
    assert len(results["decode.cache.a.key"].values) == 1


def test_stars_go_into_lists_tuples_and_dataclasses():
    results, *_ = traced(["decode.nested.*.0", "decode.state.*"])
    assert set(results) == {
        "decode.nested.0.0",
        "decode.nested.1.0",
        "decode.state.hidden",
        "decode.state.label",
    }
    assert results["decode.state.label"].values == ["s"]


def test_numbers_texts_none_and_arrays_are_kept_as_they_are():
    results, *_ = traced(["decode.number", "decode.text", "decode.nothing", "decode.array"])
    assert results["decode.number"].values == [3]
    assert results["decode.text"].values == ["three"]
    assert results["decode.nothing"].values == [None]
    assert np.array_equal(results["decode.array"].values[0], np.arange(3.0))


def test_a_container_is_copied_with_its_tensors_detached():
    results, *_ = traced("decode.cache")
    sizes = [len(value) for value in results["decode.cache"].values]
    assert sizes == [0, 1, 2]  # each time it changed
    assert not results["decode.cache"].values[-1]["a"]["key"].requires_grad


def test_a_helper_of_the_module_gives_its_return_value():
    results, *_ = traced(["decode", "decode.y"])
    assert torch.equal(results["decode"].values[0], results["decode.y"].values[0] + 1)


def test_attributes_through_self_are_kept_when_they_change():
    results, model, _, _ = traced(["forward.self.bn.running_var", "forward.self.steps"], count=2)
    kept = results["forward.self.bn.running_var"]
    assert kept.iterations == [1, 1, 2]  # before, and after each forward
    assert torch.equal(kept.values[0], torch.ones(4))
    assert torch.equal(kept.values[-1], model.bn.running_var)
    assert [float(v) for v in results["forward.self.steps"].values] == [0, 1, 2]


def test_parameters_and_buffers_of_a_module_are_kept_after_its_call():
    results, model, *_ = traced(["seq.0.weight", "bn.running_mean"], count=2)
    assert len(results["seq.0.weight"].values) == 1  # it did not change
    assert torch.equal(results["seq.0.weight"].values[0], model.seq[0].weight)
    assert len(results["bn.running_mean"].values) == 2


def test_a_star_in_the_place_of_a_function_takes_the_public_ones_of_the_class():
    results, *_ = traced("*.y")  # functions of the model with a local y
    assert set(results) == {"decode.y"}


def test_a_star_for_locals_leaves_out_self():
    results, *_ = traced("layers.0.forward.*")
    assert set(results) == {"layers.0.forward.x", "layers.0.forward.attn"}


def test_a_lone_star_takes_children_and_functions():
    results, *_ = traced("*")
    assert {"seq", "bn", "forward", "decode"} <= set(results)
    assert "layers" not in results  # never runs


def test_functions_called_several_times_keep_each_value():
    class Twice(nn.Module):
        def one(self, x):
            return x + 1

        def forward(self, x):
            return self.one(self.one(x))

    results, _, inputs, _ = traced(["one", "one.x"], Twice())
    assert [torch.equal(v, inputs[0] + i) for i, v in enumerate(results["one"].values, 1)] == [
        True,
        True,
    ]
    assert len(results["one.x"].values) == 2


def test_recursion_is_one_iteration_and_keeps_every_level():
    class Deep(nn.Module):
        def forward(self, x, depth=3):
            level = depth
            return x if depth == 0 else self(x + 1, depth - 1)

    results, *_ = traced(["forward.level", "forward"], Deep(), count=2)
    # Coming back from a call, the outer frame shows its own value again.
    assert results["forward.level"].values[:4] == [3, 2, 1, 0]
    assert set(results["forward.level"].iterations) == {1, 2}


def test_generators_give_each_yielded_value_and_their_locals():
    class Streams(nn.Module):
        def parts(self, x):
            for i in range(3):
                piece = x * i
                yield piece

        def forward(self, x):
            return sum(self.parts(x))

    results, _, inputs, _ = traced(["parts", "parts.piece", "parts.i"], Streams())
    assert [torch.equal(v, inputs[0] * i) for i, v in enumerate(results["parts"].values)] == [
        True,
        True,
        True,
    ]
    assert len(results["parts.piece"].values) == 3
    assert results["parts.i"].values == [0, 1, 2]


def test_code_that_super_leads_to_belongs_to_the_function():
    class Base(nn.Module):
        def forward(self, x):
            inner = x * 3
            return inner

    class Derived(Base):
        def forward(self, x):
            outer = super().forward(x)
            return outer + 1

    results, _, inputs, _ = traced(["forward.inner", "forward.outer"], Derived())
    assert torch.equal(results["forward.inner"].values[0], inputs[0] * 3)
    assert torch.equal(results["forward.outer"].values[0], inputs[0] * 3)


def test_cells_and_decorated_functions_are_read():
    class Closed(nn.Module):
        @torch.no_grad()
        def scaled(self, x):
            factor = x * 2
            return (lambda: factor + 1)()

        def forward(self, x):
            return self.scaled(x)

    results, _, inputs, _ = traced(["scaled.factor", "scaled"], Closed())
    assert torch.equal(results["scaled.factor"].values[0], inputs[0] * 2)
    assert torch.equal(results["scaled"].values[0], inputs[0] * 2 + 1)


def test_modules_of_one_class_are_told_apart():
    results, *_ = traced(["layers.1.forward.x", "layers.0"])
    assert set(results) == {"layers.1.forward.x", "layers.0"}
    assert torch.equal(results["layers.1.forward.x"].values[0], results["layers.0"].values[0])


def test_an_unknown_name_has_an_empty_result():
    results, *_ = traced("forward")
    assert results["nobody"].values == []
    assert "nobody" not in results


def test_a_path_that_matches_nothing_is_named_with_the_nearest():
    with pytest.warns(RuntimeWarning, match=r"'layers\.0\.forward\.atn'.*layers\.0\.forward\.attn"):
        traced("layers.0.forward.atn")


def test_a_path_that_matches_nothing_is_not_near_itself():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with (
        pytest.warns(RuntimeWarning, match="'0' matched nothing") as caught,
        ModelTracer(model, ["0"]),
    ):
        pass
    near = str(caught[0].message).partition("near it: ")[2]
    assert "0" not in near.split(", ")


def test_a_container_that_never_runs_has_no_value():
    with pytest.warns(RuntimeWarning, match="'layers' matched nothing"):
        results, *_ = traced("layers")
    assert "layers" not in results


@pytest.mark.parametrize("wrong", ["", "a..b", ".a", "a."])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(ValueError, match="path"):
        ModelTracer(Model(), [wrong])


def test_trace_model_gives_the_output_and_the_tracer():
    model, x = Model().eval(), torch.randn(2, 4)
    output, tracer = trace_model(model, ["forward"], x)
    assert torch.equal(output, tracer.results["forward"].values[0])


def test_paths_lists_what_could_be_traced_with_shapes():
    model, x = Model(), torch.randn(2, 4)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    listed = {one.path: one for one in paths(model, x)}
    assert listed["forward.x"].shape == (2, 4)
    assert listed["layers.1.forward.attn"].count == 3
    assert listed["decode.cache.a.key"].shape == (2, 4)
    assert listed["bn.running_var"].kind == "float32"
    assert listed["decode.text"].kind == "str"
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_every_path_that_is_listed_can_be_traced():
    model, x = Model(), torch.randn(2, 4)
    listed = [one.path for one in paths(model, x)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ModelTracer(model, listed) as tracer:
            model(x)
    assert set(listed) <= set(tracer.results)


class Deep(nn.Module):
    """Many modules of which few are wanted: lines are followed in those alone."""

    def __init__(self):
        super().__init__()
        self.many = nn.Sequential(*(nn.Linear(4, 4) for _ in range(40)))

    def forward(self, x):
        return self.many(x)


class ByName(Deep):
    def forward(self, x):
        return self.many[7].forward(self.many(x))  # past the module's call


@pytest.mark.parametrize(("kind", "count"), [(Deep, 1), (ByName, 2)])
def test_one_module_of_many_is_followed_however_it_is_called(kind, count):
    results, *_ = traced(["many.7.forward.input", "many.6"], kind(), count=2)
    kept = results["many.7.forward.input"]
    assert kept.iterations == [1] * count + [2] * count
    assert torch.equal(kept.values[0], results["many.6"].values[0])
