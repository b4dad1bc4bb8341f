"""Compare two recorded runs as implementations of one model: `tt.diff(a, b, align="tokens")`.

A run has sketches of the tokens of each site (keep="tokens"), what says which tokens these are, and
digests of the weights (runs/tokens.py).  From these come the same sites and weights that
`compare_models` has of living models; pairing, floor and verdict are the same.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensortap.implementations.comparison import read_map
from tensortap.implementations.rows import EPS, Sketches
from tensortap.implementations.sites import Site, coarse_of
from tensortap.implementations.stream import Tracker, given_by
from tensortap.implementations.tokens import whole_keys
from tensortap.implementations.verdict import compare_sites
from tensortap.implementations.weights import Weight, WeightComparison
from tensortap.models.modules import ROOT
from tensortap.runs.forwards import Forwards

if TYPE_CHECKING:
    from pathlib import Path

    from tensortap.implementations.comparison import Comparison
    from tensortap.implementations.tokens import Key
    from tensortap.runs.run import Run

    Numbers = np.ndarray[Any, np.dtype[Any]]
    Place = tuple[int, int]  # forward, row


MOST_PARTIAL = 3  # sites that are named


class Recorded:
    """A run as an implementation of a model.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self._forwards = Forwards(run)
        self.forwards, self.prefix = self._forwards.all, self._forwards.prefix
        #: What of the run cannot be compared, in words.
        self.lacks = ""
        if run.state != "finished" and self._is_cut_off():
            self.forwards = self.forwards[:-1]
            self.lacks = (
                f"it ended in the middle of forward {len(self.forwards)}, whose tokens are left out"
            )
        elif run.state in ("crashed", "stopped"):
            self.lacks = f"it {run.state} after {len(self.forwards)} forwards"
        self.modules = self._forwards.modules
        self.given = [given_by(forward.arguments) for forward in self.forwards]
        #: Modules whose rows are not the tokens of a forward: how many rows, of how many tokens.
        self.partial: dict[str, tuple[int, int]] = {}
        self.weights = [
            Weight.of_numbers(name, numbers) for name, numbers in self._forwards.weights.items()
        ]

    def _is_cut_off(self) -> bool:
        """Return whether the last forward lacks what the one before has."""
        if len(self.forwards) < 2:
            return False
        before, last = (one.points.keys() for one in self.forwards[-2:])
        return last < before

    # ---- tokens

    def keys(self, known: Any = frozenset()) -> tuple[Tracker, list[list[Key | None]]]:
        """Return the keys of the tokens of each forward; *known*: those of the other run."""
        tracker = Tracker(known)
        found = [[] if given is None else tracker.forward(given) for given in self.given]
        return tracker, found

    @property
    def has_ids(self) -> bool:
        """Whether some forward was given ids."""
        return any(given is not None for given in self.given)

    # ---- sites

    def sites(self, places: list[Place]) -> list[Site]:
        """Return the sites with the rows of these tokens, in this order."""
        used = sorted({i for i, _ in places})
        if not used:
            return []
        counts = {i: self.count(i) for i in used}
        pattern = self.forwards[used[0]]
        ends = sorted((points[-1].time, key) for key, points in pattern.points.items())
        found = []
        for number, (_, key) in enumerate(ends):
            site = self._site(key, 2 * number + 2)
            for part in sorted(pattern.points[key], key=lambda point: _natural(point.text)):
                rows = self._rows(key, part.text, used, counts, places)
                if rows is not None:
                    site.parts.append(rows)
            found.append(site)
        _nest(found)
        return found

    def count(self, i: int) -> int:
        """Return how many tokens a forward has: those of its ids, or of most of its points."""
        given = self.given[i]
        if given is not None:
            return given.count
        rows = [p.rows for points in self.forwards[i].points.values() for p in points]
        return max(set(rows), key=rows.count, default=0)

    def _site(self, key: tuple[str, int], end: int) -> Site:
        module, call = key
        path = module[len(self.prefix) :]
        name = "" if path == ROOT else path
        kind = self.modules.get(module, "")
        below = f"{module}." if name else self.prefix
        is_leaf = not any(m.startswith(below) for m in self.modules if m != module)
        site = Site(name, kind, call, end - 1, end, 0, is_leaf)
        own = [w for w in self.weights if w.owner == name]
        site.shapes = tuple(w.shape for w in own)
        site.coarse = max((coarse_of(w.key, w.dtype) for w in own), default=0.0)
        return site

    def _rows(
        self,
        key: tuple[str, int],
        text: str,
        used: list[int],
        counts: dict[int, int],
        places: list[Place],
    ) -> Sketches | None:
        """Gather the sketches of one output over all forwards; None: some are missing."""
        parts: dict[int, Numbers] = {}
        width, dtype = 0, "float32"
        for i in used:
            points = self.forwards[i].points.get(key, ())
            point = next((p for p in points if p.text == text), None)
            if point is None or point.rows != counts[i] or point.dtype not in EPS:
                rows = point.rows if point is not None else 0
                self.partial.setdefault(key[0][len(self.prefix) :], (rows, counts[i]))
                return None
            if width not in (0, point.shape[-1]):
                return None
            width, dtype = point.shape[-1], point.dtype
            parts[i] = self._forwards.sketches(point)
            if len(parts[i]) != counts[i]:
                raise ValueError(f"the sketches of {key[0]} make no sense: the file is damaged")
        numbers = np.stack([parts[i][row] for i, row in places])
        return Sketches.of_numbers(numbers, width, dtype)


def _natural(text: str) -> tuple[int, str]:
    return (int(text), "") if text.isdigit() else (1 << 30, text)


def _nest(sites: list[Site]) -> None:
    """Find out when each call began: before the calls of its own modules, after what was before."""
    for i, site in enumerate(sites):
        below = f"{site.name}." if site.name else ""
        first = site.end - 1
        for other in reversed(sites[:i]):
            is_inside = other.name.startswith(below) if below else True
            if (other.name, other.call) == (site.name, site.call - 1) or not is_inside:
                break
            first = other.end - 1
        site.start = first
        site.depth = sum(1 for s in sites if s.name != site.name and _holds(s.name, site.name))


def _holds(outer: str, inner: str) -> bool:
    return not outer or inner.startswith(f"{outer}.")


def compare_runs(
    a: Run,
    b: Run,
    *,
    map: str | Path | dict[str, str] | None = None,
    names: tuple[str, str] | None = None,
) -> Comparison:
    """Compare two runs that hold sketches of tokens, as `compare_models` compares two models.

    Args:
        a, b: The runs.
        map: As for `compare_models`.
        names: What the runs are called in the answer.
    """
    first, second = Recorded(a), Recorded(b)
    titles = names or (str(a.path), str(b.path))
    corrections = read_map(map)
    for recorded, given, title in zip(
        (first, second), (corrections, corrections.values()), titles, strict=True
    ):
        for name in given:
            if recorded.prefix + name not in recorded.modules and name != ROOT:
                raise ValueError(f"map names {name!r}, which is no module of {title}")
    places_a, places_b, keys, shared, notes = _shared(first, second, titles)
    result = compare_sites(
        first.sites(places_a),
        second.sites(places_b),
        first.weights,
        second.weights,
        corrections if places_a else None,
        keys,
    )
    result.tokens = len(places_a)
    notes += [
        f"{t}: {one.lacks}" for t, one in zip(titles, (first, second), strict=True) if one.lacks
    ]
    result.shared, result.notes = shared, notes + result.notes
    for recorded, title, left in zip(
        (first, second), titles, (result.unpaired_a, result.unpaired_b), strict=True
    ):
        left[:] = [name for name in left if name not in recorded.partial]
        for name, (rows, tokens) in list(recorded.partial.items())[:MOST_PARTIAL]:
            what = f"{rows} rows of it for {tokens} tokens" if rows else "it in some forwards only"
            result.notes.append(f"not compared: {name} ({title} has {what})")
        if len(recorded.partial) > MOST_PARTIAL:
            count = len(recorded.partial) - MOST_PARTIAL
            result.notes.append(f"not compared: {count} more sites of {title}, for such reasons")
    return result


def _shared(
    a: Recorded, b: Recorded, titles: tuple[str, str]
) -> tuple[list[Place], list[Place], list[Key] | None, str, list[str]]:
    """Find the tokens that both runs have, and their keys; say how many only one has."""
    if not a.has_ids or not b.has_ids:
        return _in_order(a, b)
    _, guess = a.keys()
    known = {key for keys in guess for key in keys if key is not None}
    tracker_b, keys_b = b.keys(known)
    tracker_a, keys_a = a.keys({key for keys in keys_b for key in keys if key is not None})
    is_causal = tracker_a.is_cached or tracker_b.is_cached
    whole_a, whole_b = ([whole_keys(keys) for keys in some] for some in (keys_a, keys_b))
    if not is_causal and _places(whole_a).keys() & _places(whole_b).keys():
        keys_a, keys_b = whole_a, whole_b
    at_a, at_b = _places(keys_a), _places(keys_b)
    both = [key for key in at_a if key in at_b]
    sequences = sum(1 for key in both if key[1] == 0)
    shared = f"{len(both)} tokens of {sequences} sequences in both"
    notes = []
    for title, some in zip(titles, (at_a, at_b), strict=True):
        alone = len(some) - len(both)
        shared += f"; {alone} only in {title}" if alone else ""
    for title, tracker in zip(titles, (tracker_a, tracker_b), strict=True):
        if tracker.shifted:
            notes.append(
                f"{tracker.shifted} sequences of {title} do not begin at position 0: a cached "
                "prefix, or positions that are shifted"
            )
    named = []  # a run that goes on with sequences does not have them whole
    for (i, row), key in ((at_a[key], key) for key in both):
        named.append((whole_a[i][row] or key) if not tracker_a.is_cached else (0, key[1]))
    return [at_a[key] for key in both], [at_b[key] for key in both], named, shared, notes


def _places(keys: list[list[Key | None]]) -> dict[Key, Place]:
    """Return where each token was seen first: later the weights may be others."""
    found: dict[Key, Place] = {}
    for i, some in enumerate(keys):
        for row, key in enumerate(some):
            if key is not None:
                found.setdefault(key, (i, row))
    return found


def _in_order(a: Recorded, b: Recorded) -> tuple[list[Place], list[Place], None, str, list[str]]:
    """Pair the rows of the first forwards by their numbers: there are no ids."""
    places: list[Place] = []
    for i in range(min(len(a.forwards), len(b.forwards))):
        count = a.count(i)
        if count == b.count(i):
            places += [(i, row) for row in range(count)]
    notes = ["no ids of tokens: forwards and rows are paired in order"]
    return places, places, None, f"{len(places)} rows in both", notes


def compare_weights(a: Run, b: Run, names: tuple[str, str] | None = None) -> WeightComparison:
    """Describe which parameters of two runs are equal, rounded, different or missing."""
    first, second = (
        [Weight.of_numbers(name, numbers) for name, numbers in Forwards(run).weights.items()]
        for run in (a, b)
    )
    return WeightComparison.of(first, second, names or (str(a.path), str(b.path)))
