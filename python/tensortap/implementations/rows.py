"""What two implementations are compared by: a row for each token, as values or as sketches.

`Values` are the rows themselves, of a model that runs in this process.  `Sketches` are what a run
has of them (keep="tokens"): they can be added, and joined where widths are multiples of 64.
core/summary/sketch.h defines them.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tensortap import _core

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    import torch

    Numbers = np.ndarray[Any, np.dtype[Any]]

BLOCK = 64  # features of a sketch's block
EPS = {  # half a unit in the last place
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "float8_e4m3fnuz": 2.0**-4,
    "float8_e5m2fnuz": 2.0**-3,
}


class Rows(ABC):
    """A row for each token.

    Attributes:
        width: Features of a row.
        dtype: Type of its elements, such as "float32".
    """

    width: int
    dtype: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def pick(self, rows: Sequence[int]) -> Self:
        """Return these rows, in this order."""

    @abstractmethod
    def plus(self, other: Self) -> Self:
        """Return the sum."""

    @abstractmethod
    def columns(self, chosen: Numbers) -> Self | None:
        """Return these features, in this order; None: that cannot be known."""

    @abstractmethod
    def joined(self, others: Sequence[Self]) -> Self | None:
        """Return these features and behind them those of others; None: that cannot be known."""

    @abstractmethod
    def apart(self, other: Self) -> Numbers:
        """Return of each row the distance over its size, or that of the median row if larger.

        What rounding leaves of a row depends on the terms of its sums.  Where these cancel, or a
        ReLU leaves little, it is not small because the row is.
        """

    @abstractmethod
    def numbers(self) -> Numbers:
        """Return numbers that are linear in the rows, as many lines."""

    def factor(self, other: Rows) -> tuple[float, float]:
        """Return by what all rows are multiplied to be nearest to others, and how far they are."""
        x, y = self.numbers(), other.numbers()
        size = float(np.vdot(x, x).real)
        if not 0 < size < math.inf:
            return 1.0, math.inf
        by = float(np.vdot(x, y).real) / size
        gap = np.linalg.norm(y - by * x, axis=1)
        return by, float(_relative(gap, np.linalg.norm(y, axis=1)).max())

    @abstractmethod
    def equals(self, other: Self) -> bool:
        """Return whether all are known to be equal in every bit."""

    @property
    def eps(self) -> float:
        """Half a unit in the last place."""
        return EPS[self.dtype]

    def fits(self, other: Rows) -> bool:
        """Return whether the two can be compared."""
        return len(self) == len(other) and self.width == other.width


class Values(Rows):
    """The rows themselves."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows
        self.width = rows.shape[1]
        self.dtype = str(rows.dtype).rpartition(".")[2]

    def __len__(self) -> int:
        return len(self.rows)

    def pick(self, rows: Sequence[int]) -> Values:
        """Return these rows, in this order."""
        return Values(self.rows[list(rows)])

    def plus(self, other: Values) -> Values:
        """Return the sum."""
        return Values(self.rows.double() + other.rows.double())

    def columns(self, chosen: Numbers) -> Values:
        """Return these features, in this order."""
        return Values(self.rows[:, chosen])

    def joined(self, others: Sequence[Values]) -> Values:
        """Return these features and behind them those of others."""
        import torch

        return Values(torch.cat([self.rows, *(one.rows for one in others)], 1))

    def apart(self, other: Values) -> Numbers:
        """Return the distances; two NaN are no distance."""
        import torch

        a, b = self.rows.double(), other.rows.double()
        same = torch.eq(a, b) | (a.isnan() & b.isnan())
        gap = torch.where(same, 0.0, a - b).norm(dim=1)
        sizes = (x.nan_to_num(0, 0, 0).norm(dim=1) for x in (a, b))
        gap = torch.where(gap.isnan(), math.inf, gap)
        return _relative(gap.cpu().numpy(), torch.maximum(*sizes).cpu().numpy())

    def numbers(self) -> Numbers:
        """Return the elements."""
        return np.asarray(self.rows.double().cpu().numpy())

    def equals(self, other: Values) -> bool:
        """Return whether all are equal in every bit."""
        import torch

        return self.dtype == other.dtype and torch.equal(self.rows, other.rows)


class Sketches(Rows):
    """What a run has of the rows.

    Args:
        sizes: The l2 norm of each row.
        sums: Eight complex numbers of each.
        width: Features of a row.
        dtype: Type of the elements.
    """

    def __init__(self, sizes: Numbers, sums: Numbers, width: int, dtype: str) -> None:
        self.sizes, self.sums = sizes, sums
        self.width, self.dtype = width, dtype

    @classmethod
    def of_numbers(cls, numbers: Numbers, width: int, dtype: str) -> Sketches:
        """Read what a run has: 17 numbers a row."""
        pairs = numbers[:, 1:].astype(np.float64)
        return cls(
            numbers[:, 0].astype(np.float64), pairs[:, ::2] + 1j * pairs[:, 1::2], width, dtype
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def pick(self, rows: Sequence[int]) -> Sketches:
        """Return these rows, in this order."""
        chosen = list(rows)
        return Sketches(self.sizes[chosen], self.sums[chosen], self.width, self.dtype)

    def plus(self, other: Sketches) -> Sketches:
        """Return the sum; its size is an estimate."""
        sums = self.sums + other.sums
        return Sketches(_size(sums), sums, self.width, self.dtype)

    def columns(self, chosen: Numbers) -> Sketches | None:
        """Return these features if they are all, in their order."""
        is_all = len(chosen) == self.width and bool((chosen == np.arange(self.width)).all())
        return self if is_all else None

    def joined(self, others: Sequence[Sketches]) -> Sketches | None:
        """Return these features and behind them those of others, if widths are whole blocks."""
        sums, squares, width = self.sums, self.sizes**2, self.width
        for one in others:
            if width % BLOCK:
                return None
            sums = sums + one.sums * turns(width // BLOCK)
            squares = squares + one.sizes**2
            width += one.width
        return Sketches(np.sqrt(squares), sums, width, self.dtype)

    def apart(self, other: Sketches) -> Numbers:
        """Estimate the distances; of two that are not finite nothing is known."""
        with np.errstate(invalid="ignore"):
            gap = _size(self.sums - other.sums)
            found = _relative(gap, np.maximum(self.sizes, other.sizes))
        bad = ~np.isfinite(self.sizes), ~np.isfinite(other.sizes)
        found = np.where(bad[0] & bad[1], 0.0, found)
        return np.where(bad[0] ^ bad[1], math.inf, found)

    def numbers(self) -> Numbers:
        """Return the sums."""
        return self.sums

    def equals(self, other: Sketches) -> bool:
        """Return False: equal sketches are no proof of equal bits."""
        return False

    @property
    def eps(self) -> float:
        """Half a unit in the last place; sketches are float32 at best."""
        return max(EPS[self.dtype], EPS["float32"])


def _relative(gap: Numbers, size: Numbers) -> Numbers:
    """Return distances over sizes, of which none counts as smaller than the median."""
    known = size[np.isfinite(size)]
    least = max(float(np.median(known)) if len(known) else 0.0, 1e-300)
    with np.errstate(invalid="ignore"):
        return np.where(gap > 0, gap / np.maximum(size, least), 0.0)


def _size(sums: Numbers) -> Numbers:
    return np.asarray(np.sqrt((sums.real**2 + sums.imag**2).sum(1)))


@cache
def turns(blocks: int) -> Numbers:
    """Return by what the sums of a row are multiplied if it stands so many blocks further on."""
    pairs = np.array(_core._sketch_turn(blocks))
    return np.asarray(pairs[::2] + 1j * pairs[1::2])
