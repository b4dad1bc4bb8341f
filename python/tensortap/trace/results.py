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
        return join_rows(parts)
    rows: list[Any] = []
    for part in parts:
        rows.extend(part if isinstance(part, (list, tuple, torch.Tensor)) else [part])
    return rows


def join_rows(parts: list[torch.Tensor]) -> torch.Tensor:
    """Concatenate along the first dimension; the others grow to the largest."""
    from tensortap.trace.stacking import padded

    if len(parts) == 1:
        return parts[0]
    dims = max(part.dim() for part in parts)
    parts = [part.reshape(len(part), *[1] * (dims - part.dim()), *part.shape[1:]) for part in parts]
    sizes = [max(part.shape[d] for part in parts) for d in range(1, dims)]
    return torch.cat([padded(part, [len(part), *sizes]) for part in parts])
