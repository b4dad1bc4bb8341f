"""Tensors as they were at an instant, each copied once.

What one module returns is mostly what the next one takes: the two share a copy, if it is
the same tensor and nothing was written to it in between.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import torch


class Copies:
    """Copies that somebody still holds, known by the tensor they were made of."""

    def __init__(self, *, to_cpu: bool) -> None:
        """Begin with none; *to_cpu*: they are kept there."""
        self.to_cpu = to_cpu
        self._known: dict[int, tuple[ref[torch.Tensor], int, ref[torch.Tensor]]] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Give a detached copy of a tensor as it is now."""
        version = None if tensor.is_inference() else tensor._version
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] == version:
            held = known[2]()
            if held is not None:
                return held
        with torch.no_grad():
            copy = tensor.detach().clone()
            if self.to_cpu:
                copy = copy.cpu()
        if version is not None:
            self._known[id(tensor)] = (ref(tensor), version, ref(copy))
        return copy

    def of_all(self, value: Any) -> Any:
        """Copy every tensor in tuples, lists and dicts; the rest stays what it is."""
        if isinstance(value, torch.Tensor):
            return self.of(value)
        return map_tensors(self.of, value)

    def clear(self) -> None:
        """Know none any more."""
        self._known.clear()


def map_tensors(function: Any, value: Any) -> Any:
    """Give the same nest with the function's results in place of tensors."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(function, part) for part in value))
    if type(value) in (tuple, list):
        return type(value)(map_tensors(function, part) for part in value)
    if type(value) is dict:
        return {key: map_tensors(function, part) for key, part in value.items()}
    return value
