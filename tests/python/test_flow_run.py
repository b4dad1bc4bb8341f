"""Where `flow.run` takes its arguments from."""

from __future__ import annotations

import functools
import random
from typing import Any, Optional  # the old spelling must work too

import numpy as np
import pytest

from tensortap import flow

torch = pytest.importorskip("torch")

from_globals = "global"


pytestmark = pytest.mark.usefixtures("flow_alone")


def test_the_order_is_overrides_hints_locals_globals_default() -> None:
    def fn(from_override, from_hint, from_local, from_globals, from_default="default"):  # type: ignore[no-untyped-def]
        return from_override, from_hint, from_local, from_globals, from_default

    from_override = from_hint = from_local = "local"
    flow.args(from_override="hint", from_hint="hint")
    assert flow.run(fn, from_override="override") == (
        "override",
        "hint",
        "local",
        "global",
        "default",
    )
    assert from_override == from_hint == from_local


def test_hints_add_up_and_are_seen() -> None:
    runtime = flow.args(a=1)
    assert flow.args(b=2, a=3) is runtime
    assert runtime.arg_hints == {"a": 3, "b": 2}


def test_overrides_that_are_no_parameter_are_ignored() -> None:
    assert flow.run(lambda q: q, q=1, zzz=2) == 1


def test_args_and_kwargs_are_left_out() -> None:
    def fn(a, *args, b, **kwargs):  # type: ignore[no-untyped-def]
        return a, args, b, kwargs

    assert flow.run(fn, a=1, b=2, args=3, kwargs=4) == (1, (), 2, {})


def test_positional_only_parameters_work() -> None:
    def fn(a, b=5, /, c=6):  # type: ignore[no-untyped-def]
        return a, b, c

    assert flow.run(fn, a=1, c=3) == (1, 5, 3)


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        (int, 4),
        (float, 0.1),
        (bool, False),
        (str, "thing"),
        ("int", 4),
        (Optional[int], 4),  # noqa: UP045
        ("int | None", 4),
    ],
)
def test_annotations_are_guessed_from(annotation: Any, wanted: object) -> None:
    def fn(thing):  # type: ignore[no-untyped-def]
        return thing

    fn.__annotations__["thing"] = annotation
    value = flow.run(fn)
    assert value == wanted
    assert type(value) is type(wanted)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("shape", (4, 4)),
        ("kernel_size", (4, 4)),
        ("hidden_dim", 4),
        ("n", 4),
        ("lr", 0.01),
        ("dropout_rate", 0.01),
    ],
)
def test_names_are_guessed_from(name: str, wanted: object) -> None:
    scope: dict[str, Any] = {}
    exec(f"def fn({name}): return {name}", scope)
    assert flow.run(scope["fn"]) == wanted


def test_labels_are_eight_classes() -> None:
    for value in (flow.run(lambda label: label), flow.run(lambda targets: targets)):
        assert value.shape == (8,)
        assert value.dtype == torch.int64
        assert set(value.tolist()) <= {0, 1}


def test_anything_else_is_an_eight_by_eight_tensor() -> None:
    value = flow.run(lambda q: q)
    assert value.shape == (8, 8)
    assert value.dtype == torch.float32
    assert value.std() > 0.5


def test_an_annotation_that_cannot_be_resolved_is_ignored() -> None:
    def fn(q):  # type: ignore[no-untyped-def]
        return q

    fn.__annotations__["q"] = "NoSuchType"
    assert flow.run(fn).shape == (8, 8)


def test_a_guess_leaves_the_random_numbers_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    flow.run(lambda q, label: None)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_guess_leaves_the_random_numbers_of_python_and_numpy_alone() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    flow.run(lambda q, label: None)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index]


def test_a_guess_is_where_the_programs_tensors_are() -> None:
    with torch.device("meta"):
        q, label = flow.run(lambda q, label: (q, label))
    assert (q.device.type, q.shape, label.shape) == ("meta", (8, 8), (8,))


class Shaped:
    """Something to call whose annotations are strings, as everywhere in this file."""

    def __init__(self, thing: Optional[torch.Tensor], count: int) -> None:  # noqa: UP045
        self.thing, self.count = thing, count

    def __call__(self, lr: torch.Tensor) -> torch.Tensor:
        return lr

    def forward(self, other: int) -> int:
        return other


def test_a_class_is_run_by_its_init_though_it_has_a_forward() -> None:
    made = flow.run(Shaped)
    assert (made.thing.shape, made.count) == ((8, 8), 4)
    assert flow.run(torch.nn.Linear, in_features=3, out_features=2).weight.shape == (2, 3)


def test_an_object_is_run_by_its_call_with_the_annotations_of_its_module() -> None:
    assert flow.run(Shaped(None, 1)).shape == (8, 8)  # lr would be 0.01 without its annotation


def test_what_partial_has_given_is_not_asked_for() -> None:
    def fn(a, lr: torch.Tensor, b):  # type: ignore[no-untyped-def]
        return a, lr, b

    a, lr, b = flow.run(functools.partial(fn, 1, b=2))
    assert (a, lr.shape, b) == (1, (8, 8), 2)


def test_what_the_caller_has_comes_before_the_default() -> None:
    depth = 7
    assert flow.run(lambda depth=3: depth) == depth


def test_two_guesses_differ() -> None:
    a, b = flow.run(lambda q, r: (q, r))
    assert not torch.equal(a, b)


def test_a_module_is_run_by_its_forward() -> None:
    torch.manual_seed(0)
    assert flow.run(torch.nn.Linear(8, 2)).shape == (8, 2)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="something to call"):
        flow.run(3)  # type: ignore[arg-type]


def test_what_fn_raises_comes_out() -> None:
    def fn() -> None:
        raise OSError("mine")

    with pytest.raises(OSError, match="mine"):
        flow.run(fn)
