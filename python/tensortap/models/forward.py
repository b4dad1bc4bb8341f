"""A forward pass without side effects.

No gradients, no change of random generators or buffers (such as the statistics of batch norm),
and with the autocast state of the original call.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from tensortap.private.modules import buffers_of

with suppress(ModuleNotFoundError):  # `from tensortap import *` works without it
    import torch

TWISTER = 625 * 4  # bytes of the state of a Mersenne Twister
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
    states: dict[str, Any] = {"torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = torch.cuda.get_rng_state_all()
    own: Any = random.getstate.__self__  # type: ignore[attr-defined]
    states["random"] = _if_used(own, own, own.gauss_next, random.getstate)
    if "numpy" in sys.modules:
        own = sys.modules["numpy"].random.get_state.__self__
        states["numpy"] = _if_used(
            own, own._bit_generator, _memory(own).raw, lambda: own.get_state(legacy=False)
        )
    return states


_last: dict[Any, tuple[Any, Any]] = {}  # by generator: memory, state


def _if_used(generator: Any, twister: Any, rest: Any, get: Callable[[], Any]) -> Any:
    """Return the state of a generator; ask for it only if it is not the same as the last time.

    NumPy takes 0.1 ms to return its state.  The memory that the state is in is compared instead.

    Args:
        generator: Key of what is remembered.
        twister: Holds the state, all but *rest*.
        rest: What else the state consists of.
        get: Returns the state.
    """
    if type(twister).__basicsize__ < TWISTER:  # another generator, with its state elsewhere
        return get()
    now = (_memory(twister).raw, rest)
    last = _last.get(generator)
    if last is None or last[0] != now:
        last = _last[generator] = now, get()
    return last[1]


@cache
def _memory(one: object) -> Any:
    """Return the memory of an object, without its count of references."""
    head = object.__basicsize__
    return (ctypes.c_char * (type(one).__basicsize__ - head)).from_address(id(one) + head)


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
        for key, held in buffers_of(part).items()
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
            buffers_of(part)[key] = held
            if not torch.equal(held, copy):
                held.data.copy_(copy)  # a backward pass may still need the version
