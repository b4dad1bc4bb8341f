"""Tensors inside vmap and torch.func.grad.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensortap.private.capability import Capability, expect
from tensortap.private.dispatch import without_modes


def _functorch() -> Any:
    import torch

    return torch._C._functorch


def is_transforming() -> bool:
    """Return whether a transform of functorch, such as vmap, is at work."""
    import torch

    return torch._C._are_functorch_transforms_active()


def _try_levels() -> None:
    import torch

    with without_modes():
        toy = torch.empty(0, device="cpu")
    functorch = _functorch()
    expect(functorch.is_functorch_wrapped_tensor(toy) is False, "a plain tensor seems wrapped")
    functorch.maybe_current_level()
    functorch.peek_interpreter_stack()


LEVELS = Capability(
    "read tensors inside vmap and torch.func.grad",
    "tensors inside vmap and torch.func.grad are not seen",
    _try_levels,
)


def has_level() -> bool:
    """Return whether tensors may be those of vmap or torch.func.grad; so if nobody knows."""
    return LEVELS.works() and _functorch().maybe_current_level() is not None


@contextmanager
def outside() -> Iterator[None]:
    """Leave vmap and torch.func.grad inside the block."""
    if not LEVELS.works() or _functorch().peek_interpreter_stack() is None:
        yield
        return
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    with temporarily_clear_interpreter_stack():
        yield


def unwrap(tensor: Any) -> Any:
    """Return the tensor inside vmap and torch.func.grad, with the batch dimension in front."""
    if not LEVELS.works():
        return tensor
    functorch = _functorch()
    while functorch.is_functorch_wrapped_tensor(tensor):
        batch = functorch.maybe_get_bdim(tensor)
        tensor = functorch.get_unwrapped(tensor)
        tensor = tensor.movedim(batch, 0) if batch > 0 else tensor
    return tensor
