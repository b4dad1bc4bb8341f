"""Show that watching changes nothing: the same work with and without, bit for bit.

    report = tt.verify(train_step, model=model, optimizer=optimizer)
    assert report, report

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import copy
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from tensortap.blackbox import state
from tensortap.models.forward import random_states, set_random_states
from tensortap.models.modules import named_parameters
from tensortap.private.trees import map_tensors
from tensortap.runs.record import record

with suppress(ModuleNotFoundError):  # `from tensortap import *` works without it
    import torch

Facts = dict[str, Any]  # a name and what must be the same: a tensor, a number, bytes


class Report(NamedTuple):
    """What differed between the run with and the run without watching."""

    differs: tuple[str, ...]  # names, in the order of comparison
    compared: int
    repeats: bool  # the function does the same twice when it is not watched
    rounds: bool = False  # compiled code rounds differently, because the graph contains probes

    @property
    def same(self) -> bool:
        """Nothing differed."""
        return not self.differs

    def __bool__(self) -> bool:
        return self.same

    def __str__(self) -> str:
        if self.same:
            return f"the same bits with and without watching: {self.compared} results compared"
        shown = ", ".join(self.differs[:10]) + (", ..." if len(self.differs) > 10 else "")
        if self.rounds:
            why = (
                "by rounding only: torch.compile fuses a graph that contains probes differently, "
                "and computes the same whether they are on or off"
            )
        elif self.repeats:
            why = "watching changed them"
        else:
            why = "so they do between two runs without watching: this says nothing"
        return f"{len(self.differs)} of {self.compared} results differ ({why}): {shown}"


def verify(
    fn: Callable[[], object],
    *,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    steps: int = 1,
) -> Report:
    """Check that watching a model does not change its training.

    Runs *fn* without and with watching, from the same state, and compares parameters, buffers,
    gradients, the optimizer's state and the random generators. Afterwards all are as before.

    Args:
        fn: One training step. It takes no arguments and reads no data loader, which would return
            other data the second time.
        model: The model.
        optimizer: The optimizer, if *fn* steps one.
        steps: How often to call *fn*.

    Returns:
        A report; it is true if nothing differs.

    Example:
        >>> import torch, tensortap as tt
        >>> model = torch.nn.Linear(2, 1)
        >>> bool(tt.verify(lambda: model(torch.ones(1, 2)).sum().backward(), model=model))
        True
    """
    if not callable(fn):
        raise TypeError(f"fn must be a function without arguments, not {fn!r}")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a number of steps, 1 or more, not {steps!r}")
    start = _State(model, optimizer)

    def run() -> Facts:
        results = [_copied(fn()) for _ in range(steps)]
        facts = dict(_facts("result", results))
        facts.update(_State(model, optimizer).facts())
        start.restore()
        return facts

    try:
        plain = run()
        with (
            tempfile.TemporaryDirectory(prefix="tensortap-verify-") as folder,
            record(f"{folder}/run", model=model, optimizer=optimizer),
        ):
            watched = run()
        differs = tuple(_differences(plain, watched))
        again = run() if differs else plain  # compiled code still contains the probes, all off
    finally:
        start.restore()
    repeats = not any(_differences(plain, again))
    rounds = not repeats and not any(_differences(watched, again)) and _is_close(plain, again)
    return Report(differs, len(plain.keys() | watched.keys()), repeats, rounds)


class _State:
    """Everything that a step of training may change, as it is now."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self.model = model
        optimizers = [] if optimizer is None else [optimizer]
        self.owners: tuple[Any, ...] = (
            [("", model)],
            optimizers,
            [],
            [],
        )  # no scalers, no schedulers
        self.kept = _cloned(state.take(*self.owners))
        parameters = named_parameters(model)
        self.gradients = {name: (p.grad, _cloned(p.grad)) for name, p in parameters.items()}
        self.generators = random_states()

    def facts(self) -> Facts:
        """Name everything."""
        (model,) = self.kept["models"]
        of_optimizer: Facts = {}
        for one in self.kept["optimizers"]:
            of_optimizer |= {str(i): kept for i, kept in enumerate(one["state"])}
            of_optimizer |= {f"group{i}": group for i, group in enumerate(one["groups"])}
        kinds: dict[str, Facts] = {
            "parameter": model["parameters"],
            "gradient": {name: kept for name, (_, kept) in self.gradients.items()},
            "buffer": model["buffers"],
            "optimizer": of_optimizer,
            "rng": self.generators,
        }
        found: Facts = {}
        for kind, values in kinds.items():
            for name, value in values.items():
                found.update(_facts(f"{kind}/{name}", value))
        return found

    def restore(self) -> None:
        """Put everything back: the same objects with the same contents."""
        state.set_back(_cloned(self.kept), *self.owners)
        for name, parameter in named_parameters(self.model).items():
            gradient, kept = self.gradients[name]
            parameter.grad = None if gradient is None else state.refilled(gradient, kept)
        set_random_states(self.generators)


def _cloned(value: Any) -> Any:
    """Return a value with copies of the tensors in it."""
    return map_tensors(lambda t: t.detach().clone(), value)


def _copied(value: Any) -> Any:
    """Copy the contents: what is done to the original later does not show."""
    try:
        return copy.deepcopy(_cloned(value))
    except Exception:
        return value


def _facts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tensors and numbers in containers, each with its name."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _facts(f"{name}.{key}", one)
    elif isinstance(value, (list, tuple)):
        if len(value) > 64 and all(isinstance(one, int) for one in value):
            yield name, repr(value)  # the state of `random`
        else:
            for i, one in enumerate(value):
                yield from _facts(f"{name}.{i}", one)
    elif hasattr(value, "tobytes"):  # NumPy
        yield name, value.tobytes()
    elif value is None or isinstance(value, (torch.Tensor, int, float, complex, str, bytes)):
        yield name, value


def _differences(a: Facts, b: Facts) -> Iterator[str]:
    for name in a.keys() | b.keys() if a.keys() != b.keys() else a:
        if name not in a or name not in b or not _same(a[name], b[name]):
            yield name


def _is_close(a: Facts, b: Facts) -> bool:
    """Return whether only tensors differ, and by no more than the order of additions explains."""

    def is_close(x: Any, y: Any) -> bool:
        are_tensors = isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
        if not are_tensors or x.shape != y.shape or not x.is_floating_point():
            return False
        scale = x.detach().double().abs().max()
        return bool((x.double() - y.double()).abs().max() <= 256 * torch.finfo(x.dtype).eps * scale)

    return a.keys() == b.keys() and all(is_close(a[k], b[k]) for k in _differences(a, b))


def _same(a: Any, b: Any) -> bool:
    """Compare bits: NaN equals NaN, 0 is not -0."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.layout != b.layout:
            return False
        return bool(_bits(a).equal(_bits(b)))
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return type(a) is type(b) and bool(a == b)


def _bits(t: Any) -> Any:
    if t.layout != torch.strided:
        t = t.to_dense()
    return t.contiguous().flatten().view(torch.uint8)
