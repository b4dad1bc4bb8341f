"""With and without the line source a program does the same.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import gc
import random
import sys
import traceback
import weakref
from typing import Any

import numpy as np
import pytest
from line_lab import BACKENDS, FILE, code_of, run, surroundings, tensor, torch, watch_lines

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not here")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # torch about its prototypes


def program(lib: Any) -> tuple[list[float], str]:
    total = []
    x = lib.ones((4, 4))
    for k in range(5):
        y = x * k + random.random()
        x = x + y if k % 2 else x - 1
        x[0] += k
        total.append(float(x.sum()))
    try:
        fail(x)
    except ZeroDivisionError:
        return total, traceback.format_exc()
    raise AssertionError


def fail(x: Any) -> None:
    y = x + 1
    1 / (0 if y is not x else 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_exceptions_and_tracebacks_are_the_same(backend: str) -> None:
    lib = torch if backend == "torch" else np
    random.seed(7)
    plain = program(lib)
    random.seed(7)
    with watch_lines(
        lambda e: None, codes=[code_of(program), code_of(fail)], arrays=True, before=lambda e: None
    ):
        watched = program(lib)
    assert watched == plain


@needs_torch
def test_odd_tensors_among_the_locals_disturb_nobody() -> None:
    class Sub(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            Sub.calls += 1
            return super().__torch_function__(func, types, args, kwargs or {})

    odd = {
        "empty": torch.empty(0),
        "scalar": torch.tensor(1),
        "sparse": torch.eye(3).to_sparse(),
        "csr": torch.eye(3).to_sparse_csr(),
        "meta": torch.empty(3, device="meta"),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "jagged": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        "conj": torch.ones(2, dtype=torch.complex64).conj(),
        "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "sub": torch.ones(3).as_subclass(Sub),
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "bf16": torch.ones(3, dtype=torch.bfloat16),
    }
    with torch.inference_mode():
        odd["inference"] = torch.ones(3)
    source = "n = len(str(1))\nz = x * 2\nx.data.add_(1)\nfn(x)\nn = 2"
    Sub.calls = 0
    told = run(source, {**odd, "x": torch.ones(3), "fn": lambda t: t.add_(1)})
    assert told.changes() == [(2, "z", "bound"), (3, "x", "inplace"), (4, "x", "inplace")]
    assert Sub.calls == 0


@needs_torch
def test_odd_tensors_are_told_when_a_line_makes_them() -> None:
    source = """
    p = lib.eye(3).to_sparse()
    q = lib.empty(3, device="meta")
    r = lib.empty(0)
    s = lib.nested.nested_tensor([x[0], x[1]])
    with lib.inference_mode():
        e = x + 1
        e += 1
    f = lib.jit.annotate(int, 3)
    """
    told = run(source, surroundings("torch"))
    made = [(1, "p", "bound"), (2, "q", "bound"), (3, "r", "bound"), (4, "s", "bound")]
    assert told.changes() == [*made, (6, "e", "bound"), (7, "e", "inplace")]


@needs_torch
def test_a_function_mode_does_not_see_us() -> None:
    from torch.overrides import TorchFunctionMode

    class Count(TorchFunctionMode):
        def __init__(self) -> None:
            self.calls: list[str] = []

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.calls.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    modes = [Count(), Count()]
    source = "with mode:\n    z = x + 1\n    z.add_(1)\n    n = abs(-1)\n    fn(z)"
    names = {**surroundings("torch"), "fn": lambda t: None}
    told = run(source, {**names, "mode": modes[0]})
    run(source, {**names, "mode": modes[1]}, select=lambda code: (10**6, 10**6))
    assert told.names() == ["z", "z"]
    assert modes[0].calls == modes[1].calls
    assert "_version" not in str(modes[0].calls)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_tensor_is_kept_alive(backend: str) -> None:

    dead: list[int] = []
    seen: list[str] = []

    def make() -> Any:
        if backend == "torch":
            made = torch.ones(1000)
        else:
            made = np.ones(1000).view(type("Sub", (np.ndarray,), {}))
        weakref.finalize(made, dead.append, 1)
        return made

    source = """
    for n in range(5):
        z = make()
        xs[0] = make()
        box.h = make()
        z = None
        xs[0] = None
        box.h = None
        check(n)
    """

    def check(n: int) -> None:
        assert len(dead) == 3 * (n + 1)

    run(
        source,
        {**surroundings(backend), "make": make, "check": check},
        keep=lambda e: seen.extend(c.name for c in e.changes),
    )
    assert seen == ["z", "xs[0]", "box.h"] * 5


def test_watching_does_not_grow_memory() -> None:
    x = tensor("numpy")

    def loop() -> None:
        y = x
        for k in range(2000):
            y = x + k
            box = [y]
            z = box[0]
        assert z is y

    def blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    def watch() -> None:
        with watch_lines(lambda e: None, codes=[code_of(loop)], arrays=True):
            loop()

    watch()
    before = blocks()
    for _ in range(5):
        watch()
    assert blocks() - before < 1000  # of 30000 changes; tables and caches take some


@pytest.mark.parametrize("backend", BACKENDS)
def test_code_without_source_is_told_like_any_other(backend: str) -> None:
    names = surroundings(backend)
    space = dict(names)
    told: list[str] = []
    code = compile("z = x + y\nz += 1", "/nowhere/at/all.py", "exec")
    with watch_lines(
        lambda e: told.extend(c.name for c in e.changes), files=["/nowhere/at/all.py"], arrays=True
    ):
        exec(code, space)
    assert told == ["z", "z"]
    assert code.co_filename != FILE


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_callback_that_raises_is_counted_and_muted(backend: str) -> None:
    def bad(event: Any) -> None:
        raise KeyError("mine")

    names = surroundings(backend)
    count = []

    def loop(x: Any) -> Any:
        for _ in range(150):
            x = x + 1
        return x

    with watch_lines(bad, codes=[code_of(loop)], arrays=True) as watch:
        loop(names["x"])
        count = watch.errors
    assert count[0] == 100
    assert "mine" in count[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_in_a_callback_reaches_the_program(backend: str) -> None:
    lib = torch if backend == "torch" else np
    errors = iter([KeyboardInterrupt()])

    def interrupt(_: Any) -> None:
        for error in errors:
            raise error

    with (
        pytest.raises(KeyboardInterrupt),
        watch_lines(interrupt, codes=[code_of(program)], arrays=True) as watch,
    ):
        program(lib)
    assert watch.errors[0] == 0


def test_code_with_its_own_builtins_is_no_obstacle() -> None:
    told: list[str] = []
    code = compile("z = x + 1", FILE, "exec")
    with watch_lines(
        lambda e: told.extend(c.name for c in e.changes), files=[FILE], arrays=True
    ) as watch:
        exec(code, {"x": tensor("numpy"), "__builtins__": {}})
        errors = watch.errors
    assert (told, errors) == (["z"], (0, None))
