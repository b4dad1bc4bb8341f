"""Read the forwards of a run that holds sketches of tokens: what each was given and returned.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from tensortap.models.modules import ROOT, module_name
from tensortap.runs import arrays
from tensortap.runs.tokens import FORWARD, TOKENS, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from tensortap.runs.run import Run

    Numbers = np.ndarray[Any, np.dtype[Any]]

ACTIVATION = "activation/"


class NoTokensError(ValueError):
    """The run has no sketches of tokens."""


@dataclass
class Point:
    """One tensor that a call of a module returned."""

    text: str  # which output it is: "", "0", "logits"
    at: tuple[int, int, int]  # file, site, index: for the reader
    time: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def rows(self) -> int:
        """How many tokens it has."""
        return prod(self.shape[:-1])


@dataclass
class Forward:
    """One call of the model.

    Attributes:
        start: When it began, ns.
        arguments: Ids, positions and masks that it was given.
        points: Of each module and call, what it returned.
    """

    start: int
    arguments: dict[str, Numbers] = field(default_factory=dict)
    points: dict[tuple[str, int], list[Point]] = field(default_factory=lambda: defaultdict(list))


class Forwards:
    """The forwards of one model of a run.

    Attributes:
        all: In order.
        prefix: What the names of its tensors begin with.
        modules: Class names by path.
        weights: The numbers of each parameter (runs/tokens.py), by its name.
    """

    def __init__(self, run: Run, rank: int | None = None) -> None:
        """Read them; raise NoTokensError if the run has no sketches."""
        self._run, self._reader = run, run._reader
        self._file = run._files_of(run.ranks[0] if rank is None else rank)[0]
        self.modules = run.modules
        self.prefix, forward = self._find_model()
        self.all = [Forward(point[1]) for _, point in self._points_of(forward)]
        self._starts = [one.start for one in self.all]
        for name in run.names(f"{TOKENS}{self.prefix}*"):
            if name != forward:
                self._read_argument(name, name[len(TOKENS) + len(self.prefix) :])
        known = {*self.modules, self.prefix + ROOT}
        for name in run.names(f"{ACTIVATION}{self.prefix}*"):
            path = name[len(ACTIVATION) :]
            module = module_name(path, known)
            text = path[len(module) :].strip(".")
            if module and "." not in text:
                self._read_site(name, module, text)
        self.weights = {
            name[len(WEIGHTS) + len(self.prefix) :]: self._value(name, 0)
            for name in run.names(f"{WEIGHTS}{self.prefix}*")
        }

    def _find_model(self) -> tuple[str, str]:
        """Return the prefix of the first model, and the site that counts its forwards."""
        for name in self._run.names(f"{TOKENS}*"):
            if name.endswith(FORWARD):
                return name[len(TOKENS) : -len(FORWARD)], name
        raise NoTokensError(
            f"{self._run.path} has no sketches of tokens: record it with keep='stats,tokens' "
            "(tensortap run --keep stats,tokens)"
        )

    def _points_of(self, name: str) -> Iterable[tuple[int, tuple[Any, ...]]]:
        site = self._reader.find(name)
        for index in range(self._reader.points(self._file, site)):
            yield index, self._reader.point(self._file, site, index)

    def _value(self, name: str, index: int) -> Numbers:
        at = self._file, self._reader.find(name), index
        found: Numbers = arrays.value(self._reader, *at, as_numpy=True)
        return found

    def _forward_at(self, time: int) -> int:
        """Return the number of the forward that was running; -1: none."""
        return bisect_right(self._starts, time) - 1

    def _read_argument(self, site: str, name: str) -> None:
        for index, point in self._points_of(site):
            i = self._forward_at(point[1])
            if i >= 0:
                self.all[i].arguments.setdefault(name, self._value(site, index))

    def _read_site(self, name: str, module: str, text: str) -> None:
        site = self._reader.find(name)
        calls: dict[int, int] = defaultdict(int)  # forward -> calls of the module so far
        for index, point in self._points_of(name):
            i, stats = self._forward_at(point[1]), point[8]
            is_whole = stats is not None and len(stats.shape) >= 2 and point[6] & arrays.TOKENS
            if i >= 0 and is_whole:
                one = Point(text, (self._file, site, index), point[1], stats.shape, stats.dtype)
                self.all[i].points[module, calls[i]].append(one)
                calls[i] += 1

    def sketches(self, point: Point) -> Numbers:
        """Return the sketches of its tokens, a row each."""
        found: Numbers = arrays.sketches(self._reader, *point.at)
        return found
