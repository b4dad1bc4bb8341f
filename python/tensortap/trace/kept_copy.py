"""Copy a value so that the program can go on changing it.

Tensors go to the CPU, detached; one that several names show in an iteration is copied once.
Nothing here is seen by the program: no autograd, no mode of torch, no random numbers.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from typing import Any
from weakref import ref

import numpy as np
import torch

MOST_PARTS = 100_000  # of an object that is looked through for tensors


class CannotKeepError(Exception):
    """The value cannot be copied; the text says why."""


class Copier:
    """Copies values, each tensor once an iteration."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.iteration = -1
        self.copies: dict[tuple[Any, ...], tuple[ref[torch.Tensor], torch.Tensor]] = {}

    def copy(self, value: Any, iteration: int, *, is_forced: bool, is_shared: bool) -> Any:
        """Return a copy; *is_forced*: its version does not tell that it changed.

        Raises CannotKeepError where the value, or something in it, raises or has no contents.
        """
        try:
            return self._copy(value, iteration, is_forced, is_shared)
        except CannotKeepError:
            raise
        except Exception as error:
            raise CannotKeepError(f"{type(value).__name__}: {error}") from error

    def _copy(self, value: Any, iteration: int, is_forced: bool, is_shared: bool) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, iteration, is_forced, is_shared)
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            return value
        if isinstance(value, np.ndarray):
            return value.copy()
        return deep_copy(value)

    def _tensor(
        self, t: torch.Tensor, iteration: int, is_forced: bool, is_shared: bool
    ) -> torch.Tensor:
        if iteration != self.iteration:
            self.iteration = iteration
            self.copies.clear()
        if not is_shared or type(t) not in PLAIN or _has_modes() or t.is_inference():
            return copy_tensor(t)
        if t.layout is not torch.strided:
            return copy_tensor(t)
        # While its owner lives, nobody else has this memory.
        key = (t.data_ptr(), t._version, t.dtype, t.shape, t.stride(), t.device)
        there = self.copies.get(key)
        if there is not None and there[0]() is not None and not is_forced:
            return there[1]
        made = copy_tensor(t)
        self.copies[key] = (ref(t), made)
        return made


PLAIN = (torch.Tensor, torch.nn.Parameter)


def _has_modes() -> bool:
    return bool(torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack())


def copy_tensor(t: torch.Tensor) -> torch.Tensor:
    """Give the values of a tensor in memory of their own, on the CPU."""
    if type(t) in PLAIN and not torch.is_inference_mode_enabled() and not _has_modes():
        if torch._C._functorch.maybe_current_level() is not None:
            raise CannotKeepError("inside vmap or grad")
        alone = t.detach()
        return alone.clone() if alone.is_cpu else alone.cpu()
    kind = type(t).__name__
    if kind in ("FakeTensor", "FunctionalTensor"):
        raise CannotKeepError("fake")
    if kind == "DTensor":
        local: Any = t
        t = local.to_local()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_no_dispatch_modes())
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        alone = t.clone().detach() if t.is_cpu else t.detach().cpu()
        return alone


def _no_dispatch_modes() -> Any:
    if not torch._C._len_torch_dispatch_stack():
        return contextlib.nullcontext()
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def deep_copy(value: Any) -> Any:
    """Copy a container or object with all that is in it; tensors are detached."""
    memo: dict[int, Any] = {}
    _copy_tensors(value, memo, set())
    return copy.deepcopy(value, memo)


def _copy_tensors(value: Any, memo: dict[int, Any], seen: set[int]) -> None:
    """Put a copy of every tensor in *value* into the memo of deepcopy."""
    pending = [value]
    while pending and len(seen) < MOST_PARTS:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor):
            made = copy_tensor(one)
            is_parameter = isinstance(one, torch.nn.Parameter)
            memo[id(one)] = torch.nn.Parameter(made, requires_grad=False) if is_parameter else made
        elif isinstance(one, dict):
            pending.extend(one.values())
        elif isinstance(one, (list, tuple, set, frozenset)):
            pending.extend(one)
        elif not isinstance(one, type):
            held = getattr(one, "__dict__", None)
            if isinstance(held, dict):
                pending.extend(held.values())
            pending.extend(_slots(one))


def _slots(value: Any) -> list[Any]:
    held = []
    for kind in type(value).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in [names] if isinstance(names, str) else names:
            member = vars(kind).get(name)
            if inspect.ismemberdescriptor(member):
                held.append(getattr(value, name, None))
    return held
