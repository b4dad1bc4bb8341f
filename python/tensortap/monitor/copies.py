"""Tensors as they were at an instant, each copied once.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import torch

from tensortap import _core


class Copies:
    """Copies that somebody still holds, known by the tensor they were made of."""

    def __init__(self, *, to_cpu: bool) -> None:
        """Begin with none; *to_cpu*: they are kept there."""
        self.to_cpu = to_cpu
        self._known: dict[Any, Any] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a detached copy of a tensor as it is now."""
        return _core.copy_tensor(tensor, make=self._make, cache=self._known)

    def _make(self, tensor: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            copy = tensor.detach().clone()
            return copy.cpu() if self.to_cpu else copy

    def of_all(self, value: Any) -> Any:
        """Copy every tensor in tuples, lists and dicts; the rest stays what it is."""
        return _core.map_tensors(self.of, value)

    def clear(self) -> None:
        """Forget all copies."""
        self._known.clear()
