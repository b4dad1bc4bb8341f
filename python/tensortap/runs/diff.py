"""Find where a run went wrong, and where two runs diverge.

    >>> tt.first_nonfinite("runs/today").name
    'activation/layers.2.attn'
    >>> tt.diff("runs/before", "runs/after").first.name
    'parameter/fc.weight'

The answers are those of `tensortap nan` and `tensortap diff`; docs/guide/command.md says how
they are found.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tensortap.display.table import table
from tensortap.runs.run import Run, whole_of

if TYPE_CHECKING:
    import os

    from tensortap.runs.run import NonFinite

LOWEST, HIGHEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class DiffSite:
    """What two runs have of one site."""

    name: str  # in the first run, if it is there
    rank: int
    verdict: Literal["identical", "noise", "differs", "only in a", "only in b"]
    points: int  # compared
    only_a: int  # points without a partner of the same step and call
    only_b: int
    first_step: int  # the first beyond the floor, else the first that differs; -1: none does
    first_call: int
    deviation: float  # the largest, in units of the root mean square
    floor: float  # what rounding explains there
    worst_step: int
    field: str
    a: float
    b: float
    is_rounding: bool  # a gradient that is zero but for rounding, of which the optimizer made steps


@dataclass(frozen=True)
class Premise:
    """What differs before any number is compared, and may explain the rest."""

    kind: Literal["settings", "code", "steps", "inputs", "shapes", "types"]
    step: int  # the first where it holds; -1: all
    site: str | None  # the first where it holds
    text: str
    detail: str | None = None  # several differences, a line each


@dataclass(frozen=True)
class Diff:
    """Where two runs diverge; true if they do."""

    verdict: Literal["identical", "noise", "differs"]
    first: DiffSite | None  # the first to part, in the order of execution
    sites: tuple[DiffSite, ...]
    renamed: tuple[str, str] | None  # what names of the first run hold is this in the second
    premises: tuple[Premise, ...] = ()  # other inputs, shapes, types, optimizers

    def __bool__(self) -> bool:
        return self.verdict == "differs"

    def worst(self, count: int = 10) -> list[DiffSite]:
        """Return the sites that are off most, those beyond noise first."""
        order = {"differs": 0, "noise": 1}
        found = [site for site in self.sites if site.verdict in order]
        return sorted(found, key=lambda site: (order[site.verdict], -site.deviation))[:count]

    def _repr_html_(self) -> str:
        rows = [("", one.text) for one in self.premises if one.detail is None]
        rows += [
            (one.text, line) for one in self.premises for line in (one.detail or "").splitlines()
        ]
        rows += [
            (
                site.name,
                f"from step {site.first_step}: {site.field} is {site.a:.4g} against {site.b:.4g}"
                f" at step {site.worst_step}",
            )
            for site in self.worst()
        ]
        return table(repr(self)[1:-1], rows)

    def __repr__(self) -> str:
        if self.first is None:
            return f"<Diff: {self.verdict}>"
        return f"<Diff: they diverge at step {self.first.first_step} in {self.first.name}>"


def diff(
    a: Run | str | os.PathLike[str],
    b: Run | str | os.PathLike[str],
    *,
    only: str | None = None,
    steps: tuple[int | None, int | None] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    rename: tuple[str, str] | None = None,
) -> Diff:
    """Compare two runs by the names of their sites, as `tt.diff` says."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance is not None and not (tolerance >= 0 and math.isfinite(tolerance)):
            raise ValueError(f"{name} must be a number from 0 on, not {tolerance!r}")
    low, high = steps if steps is not None else (None, None)
    with opened(a) as left, opened(b) as right:
        verdict, first, rows, old, new, premises = whole_of(left).diff(
            whole_of(right),
            only,
            LOWEST if low is None else low,
            HIGHEST if high is None else high,
            -1.0 if rtol is None else rtol,
            -1.0 if atol is None else atol,
            *(rename if rename is not None else (None, None)),
        )
    sites = tuple(DiffSite(*row) for row in rows)
    found = sites[first] if first >= 0 else None
    renamed = (old, new) if old is not None and new is not None else None
    return Diff(verdict, found, sites, renamed, tuple(Premise(*one) for one in premises))


def first_nonfinite(
    run: Run | str | os.PathLike[str], *, allow: str | None = None
) -> NonFinite | None:
    """Find where the first NaN or Inf of a run appeared.

    Args:
        run: A run, or its folder.
        allow: A glob of names that may hold NaN or Inf, such as masks filled with -inf.

    Returns:
        Name, step and statistics of the tensor, or None if all values are finite.

    Example:
        >>> import numpy as np, tensortap as tt
        >>> with tt.record("runs/nan") as run:
        ...     run.tensor("x", np.array([1.0, np.nan]))
        >>> tt.first_nonfinite("runs/nan").name
        'x'
    """
    with opened(run) as one:
        return one._origin(allow)


def opened(run: Run | str | os.PathLike[str]) -> AbstractContextManager[Run]:
    """Open a run, and close it at the end unless the caller had opened it."""
    return nullcontext(run) if isinstance(run, Run) else Run(run)
