"""Nested values as torch knows them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensortap.private.capability import Capability, expect


def _try_trees() -> None:
    from torch.utils import _pytree

    toy = {"a": [1, (2,)]}
    expect(_pytree.tree_leaves(toy) == [1, 2], "tree_leaves returns something else")
    made = _pytree.tree_map_only(int, str, toy)
    expect(made == {"a": ["1", ("2",)]}, "tree_map_only returns something else")


TREES = Capability(
    "find tensors in objects of classes that torch was told of",
    "tensors inside objects other than lists, tuples and dicts are not seen",
    _try_trees,
)


def map_tensors(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a nested value with each tensor replaced by what *function* returns."""
    import torch

    if TREES.works():
        from torch.utils._pytree import tree_map_only

        return tree_map_only(torch.Tensor, function, value)
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: map_tensors(function, one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map_tensors(function, one) for one in value)
    return value


def list_tensors(value: Any) -> list[Any]:
    """Return the tensors in a nested value."""
    import torch

    found: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    map_tensors(keep, value)
    return found
