"""How far two implementations may be apart by rounding, and whether they are further.

docs/explain/noise.md has the rule and how it was found.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensortap.implementations.rows import EPS

if TYPE_CHECKING:
    from tensortap.implementations.rows import Rows

LEAST_WIDTH = 128
PASSED_ON = 4  # times the largest deviation so far
MOST, MOST_OF_ONE = 16, 64  # times the largest base: of the median token, of the worst
ONE = 16  # times the base: of the worst token
PASSED_ON_BY_ONE = 8  # times the largest of a worst token so far


def base_of(x: Rows, y: Rows, coarse: float = 0.0) -> float:
    """Return what the rounding of one site explains; *coarse*: that of quantised weights."""
    eps, f32 = max(x.eps, y.eps, coarse), EPS["float32"]
    own = eps if eps > f32 else 0.0
    summed = min(eps, f32)
    return 2 * own + 2 * summed * (1 + math.sqrt(max(x.width, LEAST_WIDTH)))


def median_of(found: Any) -> float:
    """Return the lower median, as torch has it: a deviation that was seen."""
    return float(np.sort(found)[(len(found) - 1) // 2])


class Floor:
    """The floor of one site after the other, in the order in which they are computed."""

    def __init__(self) -> None:
        self._median = self._worst = self._base = 0.0  # the largest so far

    def judge(self, x: Rows, y: Rows, found: Any, coarse: float = 0.0) -> tuple[float, float, bool]:
        """Return the floors of the median and the worst token, and whether the site is within."""
        base = base_of(x, y, coarse)
        self._base = max(self._base, base)
        median, worst = median_of(found), float(found.max())
        floor = min(max(base, PASSED_ON * self._median), MOST * self._base)
        most = min(max(ONE * base, PASSED_ON_BY_ONE * self._worst), MOST_OF_ONE * self._base)
        is_within = median <= floor and worst <= most
        if is_within:
            self._median, self._worst = max(self._median, median), max(self._worst, worst)
        return floor, most, is_within

    def beyond(self, x: Rows, y: Rows, found: Any, coarse: float = 0.0) -> Any:
        """Return which tokens are further apart than rounding explains."""
        base = base_of(x, y, coarse)
        return found > min(max(base, PASSED_ON * self._median), MOST * self._base)
