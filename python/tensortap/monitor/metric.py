"""One metric: its name, which tensors it is for, and how it is computed.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from tensortap import _core

Aggregation = Callable[[Any], Any]
Function = Callable[..., Any]

#: Known by name, and computed in C in one pass over the tensor.
NAMES = (
    *("mean", "std", "var", "min", "max", "absmax", "norm", "l1", "rms"),
    *("nan", "inf", "zeros", "numel", "hist"),
)
KINDS = ("activation", "activation_difference", "parameter", "parameter_difference", "gradient")
UNDEFINED = float("nan")  # this very object: a statistic that no element defines
QUANTILES = {"/q05": 0.05, "/q25": 0.25, "/q50": 0.5, "/q75": 0.75, "/q95": 0.95}


@dataclass(frozen=True)
class Metric:
    """A metric as the user added it; exactly one of function and named is set."""

    name: str
    regex: re.Pattern[str]
    function: Function | None
    named: str | None
    aggregation: Aggregation | None


class Call(NamedTuple):
    """A function to call, and the key of its results."""

    key: str
    function: Function
    name: str  # of the metric


@dataclass
class Plan:
    """What is wanted of the tensors of one name."""

    row: int = -1  # of the metrics known by name, in C
    functions: list[Call] = field(default_factory=list)
    differences: list[Call] = field(default_factory=list)

    @property
    def has_functions(self) -> bool:
        """Whether Python has to be called."""
        return bool(self.functions or self.differences)


def make(
    name: str, function: Function | str | None, regex: str, aggregation: Aggregation | None = None
) -> Metric:
    """Check what the user gave."""
    if not isinstance(name, str):
        raise TypeError(f"metric_name must be a str, not {name!r}")
    named = name if function is None else function if isinstance(function, str) else None
    if named is not None and named not in NAMES:
        raise ValueError(
            f"no metric is called {named!r}; give a function, or one of {', '.join(NAMES)}"
        )
    if named is None and not callable(function):
        raise TypeError(f"metric_fn must be a function or a name, not {function!r}")
    if aggregation is not None:
        check_function("metric_aggregation_fn", aggregation)
    own = None if isinstance(function, str) else function
    return Metric(name, pattern("metric_regex", regex), own, named, aggregation)


def check_function(argument: str, given: object) -> None:
    """Raise TypeError for what cannot be called."""
    if not callable(given):
        raise TypeError(f"{argument} must be a function, not {given!r}")


def pattern(argument: str, regex: object) -> re.Pattern[str]:
    """Compile a regular expression; an error names the argument."""
    if not isinstance(regex, (str, re.Pattern)):
        raise TypeError(f"{argument} must be a regular expression, not {regex!r}")
    try:
        return re.compile(regex)
    except re.error as error:
        raise re.error(f"{argument} {regex!r} is not a regular expression: {error}") from error


def fields(metric: Metric, key: str, kinds: dict[str, int]) -> list[tuple[int, str, bool]]:
    """Return (kind, key, is_listed) of a metric known by name, as C takes them."""
    is_listed = metric.aggregation is not None
    if metric.named == "hist":
        return [(kinds["hist" + end], key + end, is_listed) for end in QUANTILES]
    return [(kinds[str(metric.named)], key, is_listed)]


def of_difference(made: Metric) -> Metric:
    """Return a metric of two tensors: the named one of their difference."""
    named = str(made.named)
    if named == "hist":
        raise ValueError("'hist' is not supported for differences; give a function")

    def function(a: torch.Tensor, b: torch.Tensor) -> float:
        between = a.detach() - b.detach()
        stats = _core.stats(between, nan_policy="propagate")
        value = value_of(stats, named)
        is_finite = not (stats.nan or stats.posinf or stats.neginf)
        return UNDEFINED if value != value and is_finite else value

    return replace(made, function=function, named=None)


def value_of(stats: _core.Stats, named: str) -> float:
    """Return the metric of this name."""
    if named == "zeros":
        return stats.zeros / stats.count if stats.count else float("nan")
    if named == "inf":
        return float(stats.posinf + stats.neginf)
    value = getattr(stats, {"norm": "l2", "numel": "count"}.get(named, named))
    if value is None:  # the least of no integers
        return float("nan")
    return abs(value) if isinstance(value, complex) else float(value)
