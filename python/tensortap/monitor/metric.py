"""One metric: its name, which tensors it is for, and how it is computed.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Aggregation = Callable[[Any], Any]
Function = Callable[..., Any]

#: Known by name, and computed in C in one pass over the tensor.
NAMES = (
    *("mean", "std", "var", "min", "max", "absmax", "norm", "l1", "rms"),
    *("nan", "inf", "zeros", "numel", "hist"),
)
KINDS = ("activation", "activation_difference", "parameter", "parameter_difference", "gradient")
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
class Wanted:
    """What is wanted of tensors of one name and kind."""

    row: int = -1  # of the metrics known by name, in C
    calls: list[Call] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.row >= 0 or bool(self.calls)


class Plan(NamedTuple):
    """What is wanted of the activations of one name, and of their differences."""

    own: Wanted
    difference: Wanted


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
