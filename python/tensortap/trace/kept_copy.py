"""Copy a value so that the program can go on changing it.

Tensors go to the CPU, detached; one that several names show in an iteration is copied once.
Nothing here is seen by the program: no autograd, no mode of torch, no random numbers.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from tensortap import _core
from tensortap.compiled.functorch import has_level
from tensortap.private.dispatch import without_modes
from tensortap.private.tensors import without_functions

MOST_OBJECTS = 100_000  # that are searched for tensors


class CannotKeepError(Exception):
    """The value cannot be copied; the text says why."""


def copy_value(value: Any, copies: dict[Any, Any] | None, *, is_forced: bool) -> Any:
    """Return a copy; *is_forced*: its version does not tell that it changed.

    Tensors that were copied already and are in *copies* share that copy.
    Raises CannotKeepError where the value, or something in it, raises or has no contents.
    """
    try:
        if isinstance(value, torch.Tensor):
            return _core.copy_tensor(value, make=copy_tensor, cache=copies, fresh=is_forced)
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            return value
        return value.copy() if isinstance(value, np.ndarray) else deep_copy(value)
    except CannotKeepError:
        raise
    except Exception as error:
        raise CannotKeepError(f"{type(value).__name__}: {error}") from error


def copy_tensor(t: torch.Tensor) -> torch.Tensor:
    """Return the values of a tensor that C cannot clone, in memory of their own, on the CPU."""
    if has_level():
        raise CannotKeepError("inside vmap or grad")
    kind = type(t).__name__
    if kind in ("FakeTensor", "FunctionalTensor"):
        raise CannotKeepError("fake")
    if kind == "DTensor":
        local: Any = t
        t = local.to_local()
    with (
        without_modes(),
        without_functions(),
        torch.inference_mode(False),
        torch.no_grad(),
    ):
        return t.clone().detach() if t.is_cpu else t.detach().cpu()


def _tensors(value: Any) -> list[torch.Tensor]:
    """List the tensors that a value reaches, those in objects and sets too."""
    seen: dict[int, Any] = {}  # it keeps them: an id may be used again
    rest = [value]
    while rest and len(seen) < MOST_OBJECTS:
        one = rest.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            if not isinstance(one, torch.Tensor):
                rest += [part for _, part in _core.children(one, sets=True, objects=True) or ()]
    return [one for one in seen.values() if isinstance(one, torch.Tensor)]


def deep_copy(value: Any) -> Any:
    """Copy a container or object with all that is in it; tensors are detached."""
    memo: dict[int, Any] = {}
    for one in _tensors(value):
        made = _core.copy_tensor(one, make=copy_tensor)
        is_parameter = isinstance(one, torch.nn.Parameter)
        memo[id(one)] = torch.nn.Parameter(made, requires_grad=False) if is_parameter else made
    return copy.deepcopy(value, memo)
