"""Private parts of tensors, of operators, and of how torch calls them.

C looks more of them up: python/ext/tensor/torch.h has the list.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tensortap.private.capability import Capability


def version_of(tensor: Any) -> Any:
    """Return how often a tensor was changed; raise RuntimeError where it is not counted."""
    return tensor._version


def is_view(tensor: Any) -> bool:
    """Return whether a tensor shares the memory of another; so where nobody knows."""
    return bool(getattr(tensor, "_is_view", lambda: True)())


STORAGES = Capability(
    "name the parameters in a log of operators",
    "names of parameters are missing in logs of operators",
)


def storage_key(tensor: Any) -> int | None:
    """Return what tells the memory of a tensor from that of others; None: torch does not say."""
    return _address_of(tensor.untyped_storage())


@STORAGES.guards(otherwise=None)
def _address_of(storage: Any) -> int:
    return int(storage._cdata)


def schema_of(operator: Any) -> Any:
    """Return the schema of an operator; None: it has none, or is of a higher order."""
    return getattr(operator, "_schema", None)


SWITCHES = Capability(
    "switch autograd and __torch_function__ off around our own operators",
    "functions that the program overrides see calls of tensortap",
    lambda: _try_switches(),
)


def _try_switches() -> None:
    import torch

    with torch._C.DisableTorchFunction():
        torch._C._set_grad_enabled(torch.is_grad_enabled())


def set_grad_mode(is_enabled: bool) -> None:
    """Switch autograd on or off, at a tenth of the price of torch.set_grad_enabled."""
    import torch

    if SWITCHES.works():
        torch._C._set_grad_enabled(is_enabled)
    else:
        torch.set_grad_enabled(is_enabled)


def without_functions() -> AbstractContextManager[Any]:
    """Return a context in which no __torch_function__ is called."""
    import torch

    return torch._C.DisableTorchFunction() if SWITCHES.works() else nullcontext()
