"""Callbacks that make one tensor of many.

Given to a `ModelTracer` with paths they get the lists and leave a list that holds the one
stacked tensor; given to a `Variable`, `result.values` becomes the stacked tensor.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from tensortap.trace.results import GlobalVariableResult, LocalVariableResult, padded


def stack_tensors(
    name: str, values: Any, iterations: list[int] | None = None, ranks: list[int] | None = None
) -> None:
    """Stack values of one shape along a new first dimension.

    Args:
        name, values, iterations, ranks: As for `stack_padded_tensors`.

    Raises:
        RuntimeError: The shapes differ.

    Example:
        >>> import torch
        >>> from tensortap.trace import LocalVariableResult, stack_tensors
        >>> result = LocalVariableResult([1, 2], [torch.ones(1), torch.zeros(1)])
        >>> stack_tensors("x", result)
        >>> result.values
        tensor([[1.],
                [0.]])
    """
    _apply(_stack, name, values)


def stack_padded_tensors(
    name: str, values: Any, iterations: list[int] | None = None, ranks: list[int] | None = None
) -> None:
    """Stack values of any shape: each dimension is as large as the largest, padded with zeros.

    Args:
        name: The name; for error messages.
        values: A result, or its list of values, which is replaced or changed in place.
        iterations, ranks: Not used.

    Example:
        >>> import torch
        >>> from tensortap.trace import LocalVariableResult, stack_padded_tensors
        >>> result = LocalVariableResult([1, 2], [torch.ones(1), torch.ones(2)])
        >>> stack_padded_tensors("x", result)
        >>> result.values
        tensor([[1., 0.],
                [1., 1.]])
    """
    _apply(_stack_padded, name, values)


stack_tensors.takes_both_forms = True  # type: ignore[attr-defined]
stack_padded_tensors.takes_both_forms = True  # type: ignore[attr-defined]


def _apply(stack: Callable[[Sequence[Any]], torch.Tensor], name: str, values: Any) -> None:
    if isinstance(values, (GlobalVariableResult, LocalVariableResult)):
        if not isinstance(values.values, torch.Tensor):  # stacked already: rows are values
            values.values = stack(values.values)
    elif isinstance(values, list):
        values[:] = [stack(values)]
    else:
        raise TypeError(
            f"values of {name!r} must be a list or a result, not {type(values).__name__}"
        )


def _as_tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        if isinstance(value, np.ndarray):
            raise
        raise TypeError(f"a {type(value).__name__} cannot be stacked: {value!r:.60}") from None


def _stack(values: Sequence[Any]) -> torch.Tensor:
    tensors = [_as_tensor(value) for value in values]
    return torch.stack(tensors) if tensors else torch.empty(0)


def _stack_padded(values: Sequence[Any]) -> torch.Tensor:
    tensors = [_as_tensor(value) for value in values]
    if len({(t.shape, t.dtype) for t in tensors}) > 1:
        dtype = functools.reduce(torch.promote_types, [t.dtype for t in tensors])
        tensors = [t.to(dtype) for t in padded(tensors, keeps=0)]
    return _stack(tensors)
