"""What was traced: three lists for each name, or two before they were gathered.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

NOTHING: Any = object()  # where no values were given


@dataclass
class LocalVariableResult:
    """Values of one name on one rank, since the last gather.

    Args:
        iterations: The iteration of each value.
        values: A list; a callback may replace it by a tensor.

    Example:
        >>> from tensortap.trace import LocalVariableResult
        >>> LocalVariableResult([1], [0.5]).values
        [0.5]
    """

    iterations: list[int] = field(default_factory=list)
    values: Any = field(default_factory=list)  # a list; a callback may put a tensor here


class _Values:
    """The field `values`: batches, of which there may be thousands, are joined when it is read."""

    def __get__(self, result: GlobalVariableResult | None, owner: type) -> Any:
        if result is None:
            return NOTHING
        parts = result._parts
        if len(parts) > 1:
            parts[:] = [joined(parts)]
        return parts[0]

    def __set__(self, result: GlobalVariableResult, values: Any) -> None:
        result.__dict__["parts"] = [[] if values is NOTHING else values]


@dataclass
class GlobalVariableResult:
    """Values of one name, from all ranks.

    Args:
        iterations: The iteration of each value.
        ranks: The rank of each value.
        values: A list; a callback may replace it by a tensor.

    Example:
        >>> from tensortap.trace import GlobalVariableResult
        >>> GlobalVariableResult([1], [0], [0.5]).values
        [0.5]
    """

    iterations: list[int] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    values: Any = _Values()  # a list; a callback may put a tensor here

    @property
    def _parts(self) -> list[Any]:
        """Return the batches that `values` consists of; there is at least one."""
        parts: list[Any] = self.__dict__["parts"]
        return parts

    def add(self, batch: GlobalVariableResult) -> None:
        """Append a batch."""
        self.iterations = _extended(self.iterations, batch.iterations)
        self.ranks = _extended(self.ranks, batch.ranks)
        last, more = self._parts[-1], batch.values
        if isinstance(last, list) and isinstance(more, list):
            last.extend(more)
        else:
            self._parts.append(more)

    def copy(self) -> GlobalVariableResult:
        """Return one with lists of its own; the values are the same."""
        values = self.values[:] if isinstance(self.values, list) else self.values
        return GlobalVariableResult(list(self.iterations), list(self.ranks), values)


class TraceResults(dict[str, GlobalVariableResult]):
    """Results by name; an unknown name has an empty result.

    Example:
        >>> from tensortap.trace import TraceResults
        >>> TraceResults()["layers.0"].values
        []
    """

    def __missing__(self, name: str) -> GlobalVariableResult:
        return GlobalVariableResult()

    def add(self, name: str, batch: GlobalVariableResult) -> None:
        """Append a batch."""
        if name in self:
            self[name].add(batch)
        else:
            self[name] = batch


def _extended(there: Any, more: Any) -> Any:
    """Append more, in place if it is a list: there may be a gather at every step."""
    if not isinstance(there, list):
        return [*there, *more]
    there.extend(more)
    return there


def joined(parts: list[Any]) -> Any:
    """Join lists, or stacked tensors row by row, padded with zeros where sizes differ."""
    parts = [part for part in parts if not (isinstance(part, list) and not part)]
    if not parts:
        return []
    if all(isinstance(part, torch.Tensor) and part.dim() > 0 for part in parts):
        return torch.cat(padded(parts, keeps=1)) if len(parts) > 1 else parts[0]
    rows: list[Any] = []
    for part in parts:
        rows.extend(part if isinstance(part, (list, tuple, torch.Tensor)) else [part])
    return rows


def padded(tensors: list[torch.Tensor], *, keeps: int) -> list[torch.Tensor]:
    """Return tensors with equal sizes: zeros are added at the end of each dimension.

    The first *keeps* dimensions stay as they are; missing ones are added behind them.
    """
    dims = max(t.dim() for t in tensors)
    tensors = [
        t.reshape((*t.shape[:keeps], *[1] * (dims - t.dim()), *t.shape[keeps:])) for t in tensors
    ]
    sizes = [max(t.shape[d] for t in tensors) for d in range(keeps, dims)]
    grown = []
    for t in tensors:
        if list(t.shape[keeps:]) != sizes:
            out = torch.zeros(*t.shape[:keeps], *sizes, dtype=t.dtype)
            out[tuple(slice(size) for size in t.shape)] = t
            t = out
        grown.append(t)
    return grown
