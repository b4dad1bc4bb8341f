"""A forward pass without side effects.

No gradients, no change of random generators or buffers (such as the statistics of batch norm),
and with the autocast state of the original call.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

Autocast = tuple[str, bool, torch.dtype] | None


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


@contextmanager
def unnoticed() -> Iterator[None]:
    """Restore all random generators at the end."""
    state = random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None else None
    has_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = list(range(torch.cuda.device_count())) if has_cuda else []
    try:
        with torch.random.fork_rng(devices=cuda), torch.no_grad():
            yield
    finally:
        random.setstate(state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)


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
