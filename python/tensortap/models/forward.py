"""A forward pass without side effects.

No gradients, no change of random generators or buffers (such as the statistics of batch norm),
and with the autocast state of the original call.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

with suppress(ModuleNotFoundError):  # `from tensortap import *` works without it
    import torch

Autocast = tuple[str, bool, Any] | None  # kind of device, is it on, dtype


def autocast_now(tensors: tuple[Any, ...]) -> Autocast:
    """Return the state of autocast for the device of the first tensor."""
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor):
            kind = tensor.device.type
            try:
                return kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
            except (RuntimeError, TypeError, AttributeError):  # a device or a torch without it
                return None
    return None


def random_states() -> dict[str, Any]:
    """Return the states of all random generators."""
    states: dict[str, Any] = {"random": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Set all random generators to these states."""
    random.setstate(states["random"])
    torch.set_rng_state(states["torch"])
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"])
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])


@contextmanager
def unnoticed() -> Iterator[None]:
    """Restore all random generators at the end."""
    states = random_states()
    try:
        with torch.no_grad():
            yield
    finally:
        set_random_states(states)


def run(module: torch.nn.Module, args: Any, kwargs: Any, autocast: Autocast) -> Any:
    """Call a module, and restore its buffers."""
    buffers = [
        (part, key, held, held.detach().clone())
        for part in module.modules()
        for key, held in part._buffers.items()
        if held is not None
    ]
    try:
        if autocast is None:
            return module(*args, **kwargs)
        kind, is_enabled, dtype = autocast
        with torch.autocast(kind, dtype=dtype, enabled=is_enabled):
            return module(*args, **kwargs)
    finally:
        for part, key, held, copy in buffers:  # by contents: batch norm does not change the version
            part._buffers[key] = held
            if not torch.equal(held, copy):
                held.data.copy_(copy)  # a backward pass may still need the version
