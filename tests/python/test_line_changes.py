"""A change is told once, by the line that made it, whatever way it was made.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from line_lab import BACKENDS, run, surroundings, tensor, torch

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not here")


def body(source: str, backend: str = "torch", **names: Any) -> list[tuple[int, str, str]]:
    return run(source, {**surroundings(backend), **names}).changes()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_view_changes_its_base(backend: str) -> None:
    assert body("v = x[0]\nv += 5\n", backend) == [
        (1, "v", "bound"),
        (2, "v", "inplace"),
        (2, "x", "inplace"),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_alias_changes_with_its_tensor(backend: str) -> None:
    assert body("v = x\nx += 5\n", backend) == [
        (1, "v", "bound"),
        (2, "x", "inplace"),
        (2, "v", "inplace"),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_that_changes_its_argument_is_seen_in_the_caller(backend: str) -> None:
    def spoil(t: Any) -> None:
        t[0] = 77

    told = run("n = 3\nspoil(x)\nn = 4", {**surroundings(backend), "spoil": spoil})
    assert told.arrows() == [(2, "x", ["x"])]
    assert told.changes() == [(2, "x", "inplace")]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_line_that_stores_the_same_object_again_counts_as_rebound(backend: str) -> None:
    assert body("z = x\nz = y\nz = y", backend) == [
        (1, "z", "bound"),
        (2, "z", "rebound"),
        (3, "z", "rebound"),
    ]


def test_an_array_whose_contents_stay_has_not_changed() -> None:
    assert body("x[0] = x[0]\nx *= 1", "numpy") == [(2, "x", "rebound")]


@needs_torch
@pytest.mark.parametrize(
    "line",
    [
        "x.add_(y)",
        "x.zero_()",
        "x.data.add_(1)",
        "x.data = y * 3",
        "x.numpy()[0] = 9",
        "x.set_((y * 3).untyped_storage(), 0, (3, 3))",
        "lib.add(y, w, out=x)",
        "x.detach().mul_(3)",
        "x[0, 0] = 5",
        "x.T[0] = 5",
        "x.resize_(2, 2)",
    ],
)
def test_torch_can_change_a_tensor_in_place_in_many_ways(line: str) -> None:
    assert body(f"n = 1\n{line}\nn = 2") == [(2, "x", "inplace")]


@needs_torch
def test_a_write_through_memory_shared_with_numpy_is_seen() -> None:
    assert body("a = x.numpy()\na[0] = 7\n") == [
        (1, "a", "bound"),
        (2, "a", "inplace"),
        (2, "x", "inplace"),
    ]


@needs_torch
def test_a_change_under_no_grad_is_seen() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    assert body("with lib.no_grad():\n    p.mul_(2)\n    p += 1", p=parameter) == [
        (2, "p", "inplace"),
        (3, "p", "inplace"),
    ]


@needs_torch
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_an_optimizer_step_changes_the_parameters_it_is_named_by(name: str, fused: bool) -> None:
    layer = torch.nn.Linear(3, 3)
    optimizer = getattr(torch.optim, name)(layer.parameters(), lr=0.1, fused=fused)
    told = run(
        """
        weight = layer.weight
        loss = layer(x).sum()
        loss.backward()
        optimizer.step()
        n = 2
        """,
        {**surroundings("torch"), "layer": layer, "optimizer": optimizer},
    )
    assert [c for c in told.changes() if c[1] != "loss"] == [
        (1, "weight", "bound"),
        (4, "weight", "inplace"),
        (4, "layer.weight", "inplace"),
    ]


@needs_torch
def test_an_inference_tensor_is_compared_by_contents() -> None:
    source = (
        "with lib.inference_mode():\n    z = x + 1\n    n = len(xs)\n    z.add_(1)\n    z.add_(0)\n"
    )
    assert body(source) == [(2, "z", "bound"), (4, "z", "inplace")]


@needs_torch
def test_a_change_of_shape_or_type_by_data_is_seen() -> None:
    assert body("x.data = x.data.double()\nx.data = x.data.reshape(9)") == [
        (1, "x", "inplace"),
        (2, "x", "inplace"),
    ]


def test_a_large_array_is_sampled_and_the_change_says_so() -> None:
    big = np.zeros((1 << 14, 1 << 11), np.float32)  # 128 MB
    flags: list[tuple[str, bool]] = []
    run(
        "n = len(xs)\nbig += 1\nx += 1\n",
        {**surroundings("numpy"), "big": big},
        keep=lambda event: flags.extend((c.name, c.is_sampled) for c in event.changes),
    )
    assert flags == [("big", True), ("x", False)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_change_belongs_to_the_first_line_of_its_statement(backend: str) -> None:
    assert body("n = 1\nz = (x +\n     y)\nw = lib.add(\n    z,\n    y)\n", backend) == [
        (2, "z", "bound"),
        (4, "w", "rebound"),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_statements_on_one_line_are_told_one_by_one(backend: str) -> None:
    told = run("z = x + 1; v = z * y; z = v", surroundings(backend))
    assert told.arrows() == [(1, "z", ["x"]), (1, "v", ["y", "z"]), (1, "z", ["v"])]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_tells_every_turn_and_nothing_at_its_end(backend: str) -> None:
    source = "for row in xs:\n    z = row * 2\nn = 1"
    assert body(source, backend) == [
        (1, "row", "bound"),
        (2, "z", "bound"),
        (1, "row", "rebound"),
        (2, "z", "rebound"),
        (1, "row", "rebound"),
        (2, "z", "rebound"),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_on_one_line_tells_every_turn(backend: str) -> None:
    told = run("for row in xs: z = row * 2\nn = 1", surroundings(backend))
    assert told.names() == ["row", "z"] * 3
    assert told.arrows()[-1] == (1, "z", ["row"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_while_loop_on_one_line_tells_every_turn(backend: str) -> None:
    told = run("while n < 5: x = x * 2; n += 1\nn = 0", surroundings(backend))
    assert told.names() == ["x"] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_branch_that_does_not_run_changes_nothing(backend: str) -> None:
    assert body(
        "z = x + 1\nif n > 100: z = y\nif n > 100:\n    z = y\nelse:\n    v = y", backend
    ) == [
        (1, "z", "bound"),
        (6, "v", "bound"),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_statement_that_raises_changes_only_what_it_did(backend: str) -> None:
    source = """
    try:
        z = x + missing
    except NameError:
        v = y
    try:
        x += 1; raise ValueError
    except ValueError as error:
        u = w
    finally:
        t = u
    """
    assert body(source, backend) == [
        (4, "v", "bound"),
        (6, "x", "inplace"),
        (8, "u", "bound"),
        (10, "t", "bound"),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_last_statement_before_the_return_is_told(backend: str) -> None:
    assert body("z = x + 1\nreturn z", backend) == [(1, "z", "bound")]
    assert body("x += 1", backend) == [(1, "x", "inplace")]


@pytest.mark.parametrize("backend", BACKENDS)
def test_with_binds_what_its_context_gives(backend: str) -> None:
    import contextlib

    told = run(
        "with give(x + 1) as z:\n    v = z * 2\nn = 1",
        {**surroundings(backend), "give": contextlib.nullcontext},
    )
    assert told.arrows() == [(1, "z", ["x"]), (2, "v", ["z"])]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_arrow_starts_at_the_state_that_was_read(backend: str) -> None:
    told = run("z = x + 1\nv = z\nz = z * 2\nu = v + z", surroundings(backend))
    by_key = {c.key: (e.line, c.name) for e in told.events for c in e.changes}
    last = told.events[-1]
    assert [by_key[last.reads[i].key] for i in last.changes[0].reads] == [(2, "v"), (3, "z")]
    third = told.events[2]
    assert third.changes[0].old_key == third.reads[0].key
    assert by_key[third.reads[0].key] == (1, "z")


@pytest.mark.parametrize("backend", BACKENDS)
def test_globals_are_named_once_for_all_functions(backend: str) -> None:
    source = """
    g = x + 1
    def step():
        global g
        g = g * 2
    step()
    v = g
    """
    told = run(source, surroundings(backend), is_function=False)
    assert told.arrows() == [(1, "g", ["x"]), (4, "g", ["g"]), (6, "v", ["g"])]
    keys = [c.key for e in told.events for c in e.changes]
    assert told.events[1].reads[0].key == keys[0]
    assert told.events[2].reads[0].key == keys[1]
    assert {c.kind for e in told.events for c in e.changes} == {"global"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_method_changes_attributes_and_its_caller_hears_it_once(backend: str) -> None:
    source = """
    class Layer:
        def __init__(self, w):
            self.w = w
            self.n = 0
        def step(self, x):
            self.w = self.w + x
            return self.w * 2
    layer = Layer(x)
    z = layer.step(y)
    v = layer.w
    """
    told = run(source, surroundings(backend), is_function=False)
    assert told.arrows() == [
        (3, "self.w", ["w"]),
        (6, "self.w", ["self.w", "x"]),
        (9, "z", ["y"]),
        (10, "v", ["layer.w"]),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_class_body_is_code_like_any_other_and_an_exec_has_no_arrows(backend: str) -> None:
    source = """
    class C:
        a = x + 1
        b = a * 2
    exec(compile("q = x * 3", __file__, "exec"), {"x": x})
    """
    told = run(source, {**surroundings(backend), "__file__": "<lab>"}, is_function=False)
    assert told.arrows() == [(2, "a", ["x"]), (3, "b", ["a"]), (1, "q", [])]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_name_that_held_no_tensor_is_bound_again(backend: str) -> None:
    assert body("z = x + 1\nz = None\nz = x * 2\ndel z\nz = y", backend) == [
        (1, "z", "bound"),
        (3, "z", "bound"),
        (5, "z", "bound"),
    ]


@needs_torch
def test_modules_keep_their_parameters_by_name() -> None:
    layer = torch.nn.Linear(3, 3)
    layer.register_buffer("seen", torch.zeros(3))
    told = run("z = layer.weight + layer.seen\nlayer.seen.add_(1)", {"layer": layer})
    assert told.arrows() == [
        (1, "z", ["layer.seen", "layer.weight"]),
        (2, "layer.seen", ["layer.seen"]),
    ]
    stack = torch.nn.Sequential(torch.nn.Linear(3, 3))
    assert run("z = stack[0].weight * 2", {"stack": stack}).arrows() == [
        (1, "z", ["stack[0].weight"])
    ]


def test_no_code_of_the_users_runs_to_find_a_value() -> None:
    class Nosy:
        def __init__(self) -> None:
            self.asked = 0
            self.w = tensor("numpy")

        @property
        def p(self) -> Any:
            self.asked += 1
            return self.w

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

        def __getitem__(self, key: object) -> Any:
            self.asked += 1
            return self.w

    nosy = Nosy()
    told = run("z = o.p + 1\nv = o[0] * 2\nu = o.w", {"o": nosy})
    assert nosy.asked == 2
    assert told.arrows() == [(1, "z", []), (2, "v", []), (3, "u", ["o.w"])]
