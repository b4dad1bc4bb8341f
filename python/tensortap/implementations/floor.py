"""How far two implementations may be apart by rounding, and whether they are further.

docs/explain/noise.md has the rule and how it was found.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

LEAST_WIDTH = 128
PASSED_ON = 4  # times the largest deviation so far
MOST, MOST_OF_ONE = 16, 64  # times the largest base: of the median token, of the worst
ONE = 4  # times the base: of the worst token


def deviations(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return of each row the distance over the size of the larger; two NaN are no distance."""
    import torch

    a, b = x.double(), y.double()
    same = torch.eq(a, b) | (a.isnan() & b.isnan())
    gap = torch.where(same, 0.0, a - b).norm(dim=1)
    size = torch.maximum(a.nan_to_num(0, 0, 0).norm(dim=1), b.nan_to_num(0, 0, 0).norm(dim=1))
    gap = torch.where(gap.isnan(), math.inf, gap)
    return torch.where(gap > 0, gap / size.clamp(min=1e-300), 0.0)


def base_of(x: torch.Tensor, y: torch.Tensor, width: int) -> float:
    """Return what the rounding of one site explains."""
    import torch

    eps = max(torch.finfo(t.dtype).eps for t in (x, y)) / 2  # half a unit in the last place
    is_short = eps > torch.finfo(torch.float32).eps
    own = eps if is_short else 0.0
    is_double = x.dtype == y.dtype == torch.float64
    summed = torch.finfo(torch.float64 if is_double else torch.float32).eps / 2
    return 2 * own + 2 * summed * (1 + math.sqrt(max(width, LEAST_WIDTH)))


class Floor:
    """The floor of one site after the other, in the order in which they are computed."""

    def __init__(self) -> None:
        self._median = self._worst = self._base = 0.0  # the largest so far

    def judge(self, x: torch.Tensor, y: torch.Tensor, found: torch.Tensor) -> tuple[float, bool]:
        """Return the floor of the median token, and whether the site is within it."""
        base = base_of(x, y, x.shape[1])
        self._base = max(self._base, base)
        median, worst = float(found.median()), float(found.max())
        floor = min(max(base, PASSED_ON * self._median), MOST * self._base)
        most = min(max(ONE * base, PASSED_ON * self._worst), MOST_OF_ONE * self._base)
        is_within = median <= floor and worst <= most
        if is_within:
            self._median, self._worst = max(self._median, median), max(self._worst, worst)
        return floor, is_within

    def beyond(self, x: torch.Tensor, y: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        """Return which tokens are further apart than rounding explains."""
        base = base_of(x, y, x.shape[1])
        return found > min(max(base, PASSED_ON * self._median), MOST * self._base)
