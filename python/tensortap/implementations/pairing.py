"""Find out which site of one model is which site of the other, by evidence.

In this order: modules whose parameters have the same content, also several in one (q|k|v);
containers that hold the same parameters; what is left between its neighbours, by value, then by
kind.  A pair that deviates although what is computed from it agrees are unlike points, and is
refused.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensortap.implementations.comparison import NUMBERS, filled, fold
from tensortap.implementations.floor import median_of
from tensortap.implementations.rows import EPS
from tensortap.implementations.sites import Site
from tensortap.models.modules import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tensortap.implementations.rows import Rows
    from tensortap.implementations.weights import Match, Weight

LIKE = 1e-3  # two points that are no further apart are the same, in float32 ...
LIKE_SHORT = 3e-2  # ... and in types with less bits
LEAST_RATIO, LEAST_RATIO_SHORT = 100, 10  # by which what refutes a pair must be nearer
UNKNOWN_ORDER = "sketches do not tell features that stand in another order or in parts"
KINDS = (  # words in the names of classes of one kind
    ("norm", "rms"),
    ("act", "gelu", "silu", "relu", "swish"),
    ("linear", "conv1d", "dense"),
    ("dropout",),
    ("embed",),
    ("attention", "attn"),
    ("rotary", "rope"),
)


@dataclass
class Candidate:
    """Two sites as they can be compared."""

    a: Site
    b: Site
    name_a: str
    name_b: str
    x: Rows
    y: Rows
    how: str  # "weights", "siblings", "container", "value", "position", "name", "map"
    relation: str = ""
    parts: tuple[Site, ...] = ()  # of a concatenation; one of them is *a* or *b*

    def __post_init__(self) -> None:
        self.found = self.x.apart(self.y)

    @property
    def coarse(self) -> float:
        """What the rounding of quantised weights explains."""
        return max(site.coarse for site in (self.a, self.b, *self.parts))

    @property
    def distance(self) -> float:
        """That of the median token."""
        return median_of(self.found)

    @property
    def is_short(self) -> bool:
        """Whether a type has less bits than float32."""
        return max(self.x.eps, self.y.eps) > EPS["float32"]

    @property
    def most_alike(self) -> float:
        """How far apart the same point may be."""
        return LIKE_SHORT if self.is_short else LIKE

    @property
    def is_like(self) -> bool:
        """Whether the two may be the same point."""
        return self.distance < self.most_alike


def joined_name(names: list[str]) -> str:
    """Return the name of a concatenation: `attn.q_proj|k_proj|v_proj` if all are in one module."""
    parents = {name.rpartition(".")[0] for name in names}
    if len(parents) > 1:
        return "|".join(names)
    return names[0] + "".join("|" + name.rpartition(".")[2] for name in names[1:])


def is_similar(a: Site, b: Site) -> bool:
    """Return whether two modules are of one kind: by their classes, or the shapes of parameters."""
    x, y = a.kind.lower(), b.kind.lower()
    are_like = x == y or any(_has(x, words) and _has(y, words) for words in KINDS)
    return are_like or (bool(a.shapes) and a.shapes == b.shapes)


def _has(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name for word in words)


class Pairing:
    """The pairs of two models, and what could not be paired."""

    def __init__(
        self,
        sites_a: list[Site],
        sites_b: list[Site],
        matches: list[Match],
        weights: tuple[list[Weight], list[Weight]],
    ) -> None:
        self.sites_a, self.sites_b, self.matches, self.weights = sites_a, sites_b, matches, weights
        self.pairs: list[Candidate] = []
        self.refused: list[tuple[str, str, str]] = []
        self.used_a: set[tuple[str, int]] = set()
        self.used_b: set[tuple[str, int]] = set()
        self._by_name: tuple[dict[str, list[Site]], dict[str, list[Site]]] = ({}, {})
        for table, sites in zip(self._by_name, (sites_a, sites_b), strict=True):
            for site in sites:
                table.setdefault(site.name, []).append(site)
            table[ROOT] = table.get("", [])

    def run(self, corrections: dict[str, str]) -> None:
        """Find all pairs."""
        self._pair_by_map(corrections)
        self._pair_owners()
        self._pair_siblings()
        self._pair_containers()
        self._pair_rest()
        self._refute()
        self._pair_aliases()
        self.pairs.sort(key=lambda p: (p.a.end, p.b.end))
        paired = {pair.name_a for pair in self.pairs}
        self.refused = [one for one in self.refused if one[0] not in paired]

    def parameters(self, pair: Candidate) -> dict[str, str]:
        """Return how the content of each parameter of a pair differs."""
        if pair.parts:
            names = {site.name for site in pair.parts}
            one, own = (
                (pair.b.name, self.weights[0])
                if pair.a.name in names
                else (pair.a.name, self.weights[1])
            )
            keys = {
                f"{w.owner.rpartition('.')[2]}.{w.key}": "different"
                for w in own
                if w.owner in names and not w.is_constant
            }
            return keys | {
                f"{part.owner.rpartition('.')[2]}.{part.key}": m.difference()
                for m in self.matches
                for part, whole in ((m.a, m.b), (m.b, m.a))
                if part.owner in names and whole.owner == one
            }
        mine, theirs = (
            {w.key: w for w in some if w.owner == site.name}
            for some, site in zip(self.weights, (pair.a, pair.b), strict=True)
        )
        found = {
            m.a.key: m.difference()
            for m in self.matches
            if (m.a.owner, m.b.owner) == (pair.a.name, pair.b.name)
        }
        for key, weight in mine.items():
            other = theirs.get(key)
            # A constant one matches nothing by content; here it is known which is which.
            if key not in found and other is not None and other.shape == weight.shape:
                found[key] = weight.against(other)
            elif key not in found and not weight.is_constant:
                found[key] = "without a counterpart"
        return found

    # ---- helpers

    def _add(self, pair: Candidate, *others: Site) -> None:
        """Add a pair; *others*: further sites that it is made of."""
        self.pairs.append(pair)
        self.used_a.add(pair.a.key)
        self.used_b.add(pair.b.key)
        for site in others:
            (self.used_a if site in self.sites_a else self.used_b).add(site.key)

    def _refuse(self, name_a: str, name_b: str, a: Iterable[Site], b: Iterable[Site]) -> None:
        """Leave sites out that are the same point, but cannot be compared."""
        self.refused.append((name_a, name_b, UNKNOWN_ORDER))
        self.used_a.update(site.key for site in a)
        self.used_b.update(site.key for site in b)

    def _views(self, a: Site, b: Site, how: str, relation: str = "") -> list[Candidate]:
        """Return the ways in which two sites can be compared, the nearest first."""
        found = [
            Candidate(a, b, a.title + at_a, b.title + at_b, x, y, how, relation)
            for at_a, x in a.views()
            for at_b, y in b.views()
            if x.fits(y)
        ]
        return sorted(found, key=lambda one: one.distance)

    def _unlikeness(self, view: Candidate) -> tuple[bool, bool, bool, int, float]:
        """Return what ranks sites of equal content: not where its parameters are, another kind."""
        a, b = view.a, view.b
        is_elsewhere = not any(
            m.a.owner == a.name and b.name and f"{m.b.owner}.".startswith(f"{b.name}.")
            for m in self.matches
        )
        are_unlike = a.is_leaf != b.is_leaf, not is_similar(a, b)
        return is_elsewhere, *are_unlike, abs(a.end - b.end), view.distance

    def _is_free(self, a: Site, b: Site) -> bool:
        return a.key not in self.used_a and b.key not in self.used_b

    # ---- the steps

    def _pair_by_map(self, corrections: dict[str, str]) -> None:
        for name_a, name_b in corrections.items():
            for a, b in self._calls(name_a, name_b):
                if views := self._views(a, b, "map"):
                    self._add(views[0])

    def _pair_owners(self) -> None:
        """Pair modules whose parameters have the same content."""
        self._pair_joined(0)
        self._pair_joined(1)
        for m in self.matches:
            if m.part:
                continue
            for a, b in self._calls(m.a.owner, m.b.owner):
                if not self._is_free(a, b):
                    continue
                views = self._views(a, b, "weights", m.relation)
                if m.a.is_matrix and m.is_permuted:
                    views = self._permuted(a, b, m)
                # A module with others inside may own a parameter that is elsewhere in the other
                # model: what it returns need not be the same point.
                is_owner = a.is_leaf or b.is_leaf
                if views and (is_owner or views[0].is_like):
                    self._add(views[0])

    def _calls(self, owner_a: str, owner_b: str) -> Iterable[tuple[Site, Site]]:
        sites = (t.get(n, []) for t, n in zip(self._by_name, (owner_a, owner_b), strict=True))
        return [(a, b) for a, b in zip(*sites, strict=False) if a.parts and b.parts]

    def _permuted(self, a: Site, b: Site, m: Match) -> list[Candidate]:
        """Compare outputs whose features stand in another order, where the weight says in which."""
        x, y = a.parts[0], b.parts[0]
        if x.width != m.a.size(m.axes[0]) or y.width != m.b.size(m.axes[1]):
            return self._views(a, b, "weights", m.relation)  # its rows are no outputs
        chosen, other = x.columns(m.in_a), y.columns(m.in_b)
        if chosen is None or other is None:
            self._refuse(a.name, b.name, (a,), (b,))
            return []
        return [Candidate(a, b, a.name, b.name, chosen, other, "weights", m.relation)]

    def _pair_joined(self, side: int) -> None:
        """Pair several modules of one model with one of the other: q|k|v with qkv."""
        groups: dict[str, list[Match]] = defaultdict(list)
        word = "whole" if side == 0 else "part"  # what the one model has of the other
        for m in self.matches:
            if m.a.is_matrix and m.part == word:
                groups[(m.a if side == 0 else m.b).owner].append(m)
        for owner, found in groups.items():
            ones = self._by_name[side].get(owner, [])
            members = self._parts(found, side)
            parts = [(m.b if side == 0 else m.a).owner for m in members]
            others = [self._by_name[1 - side][part] for part in parts]
            for call in range(min(map(len, (ones, *others)), default=0)):
                self._join(ones[call], [some[call] for some in others], members, side)

    def _parts(self, found: list[Match], side: int) -> list[Match]:
        """Return one match for each range of rows: of layers with equal content the first left."""
        used = self.used_b if side == 0 else self.used_a
        members: dict[int, Match] = {}
        for m in found:
            sites = self._by_name[1 - side].get((m.b if side == 0 else m.a).owner, [])
            if sites and sites[0].key not in used:
                members.setdefault(int((m.in_a if side == 0 else m.in_b)[0]), m)
        return [members[start] for start in sorted(members)]

    def _join(self, one: Site, several: list[Site], members: list[Match], side: int) -> None:
        used, used_others = (self.used_a, self.used_b) if side == 0 else (self.used_b, self.used_a)
        if one.key in used or any(s.key in used_others or not s.parts for s in several):
            return
        if not one.parts or len({s.key for s in several}) < len(several):
            return
        inside = [m.in_a if side == 0 else m.in_b for m in members]
        theirs = [m.in_b if side == 0 else m.in_a for m in members]
        is_output = all(
            s.parts[0].width == (m.b if side == 0 else m.a).size(m.axes[1 - side])
            for s, m in zip(several, members, strict=True)
        )
        width = (members[0].a if side == 0 else members[0].b).size(members[0].axes[side])
        if not is_output or one.parts[0].width != width:
            return
        name = joined_name([s.name for s in several])
        chosen = [s.parts[0].columns(i) for s, i in zip(several, theirs, strict=True)]
        whole = one.parts[0].columns(np.concatenate(inside))
        known = [rows for rows in chosen if rows is not None]
        joined = known[0].joined(known[1:]) if len(known) == len(chosen) else None
        if joined is None or whole is None:
            if side == 0:
                self._refuse(one.name, name, (one,), several)
            else:
                self._refuse(name, one.name, several, (one,))
            return
        name_one = one.name + ("[0]" if len(one.parts) > 1 else "")
        # The last of several ends when all are there.
        last = max(several, key=lambda s: s.end)
        relation = "|".join(s.name.rpartition(".")[2] for s in several)
        if side == 0:
            pair = Candidate(one, last, name_one, name, whole, joined, "weights", relation)
        else:
            pair = Candidate(last, one, name, name_one, joined, whole, "weights", relation)
        pair.parts = tuple(several) if len(several) > 1 else ()
        order = np.concatenate(inside)
        are_plain = all((i == np.arange(len(i))).all() for i in (order, *theirs))
        pair.relation += "" if are_plain else ", permuted"
        self._add(pair, *several)

    def _pair_siblings(self) -> None:
        """Pair what corresponds in the other layers: a weight of this one was changed or is stale.

        That layers.1.gate_proj|up_proj = blocks.1.up and layers.3.… = blocks.3.… tells of layer 2.
        """
        known: Counter[tuple[tuple[str, ...], tuple[str, ...]]] = Counter()
        for pair in self.pairs:
            names = tuple(site.name for site in pair.parts)
            a = names if pair.a in pair.parts else (pair.a.name,)
            b = names if pair.b in pair.parts else (pair.b.name,)
            layers = {tuple(NUMBERS.findall(name)) for name in (*a, *b)}
            if pair.how == "weights" and "permuted" not in pair.relation and len(layers) == 1:
                known[tuple(map(fold, a)), tuple(map(fold, b))] += 1
        for (left, right), _ in known.most_common():
            for site in self.sites_a:
                if fold(site.name) == left[0] != site.name and site.key not in self.used_a:
                    numbers = NUMBERS.findall(site.name)
                    self._pair_like_siblings(
                        *([filled(name, numbers) for name in names] for names in (left, right))
                    )

    def _pair_like_siblings(self, left: list[str], right: list[str]) -> None:
        """Pair the first free calls of modules with these names."""
        sites: list[list[Site]] = []
        for names, table, used in zip(
            (left, right), self._by_name, (self.used_a, self.used_b), strict=True
        ):
            free = [[s for s in table.get(n, []) if s.key not in used and s.parts] for n in names]
            if not all(free):
                return
            sites.append([some[0] for some in free])
        rows = [some[0].parts[0].joined([s.parts[0] for s in some[1:]]) for some in sites]
        x, y = rows
        if x is None or y is None or not x.fits(y):
            return
        a, b = (max(some, key=lambda s: s.end) for some in sites)
        pair = Candidate(a, b, joined_name(left), joined_name(right), x, y, "siblings")
        several = max(sites, key=len)
        pair.parts = tuple(several) if len(several) > 1 else ()
        self._add(pair, *several)

    def _pair_containers(self) -> None:
        """Pair modules that hold the same parameters, the innermost first."""
        holds: tuple[dict[str, set[int]], dict[str, set[int]]] = (
            defaultdict(set),
            defaultdict(set),
        )
        for k, m in enumerate(self.matches):
            for table, owner in zip(holds, (m.a.owner, m.b.owner), strict=True):
                path = owner.split(".") if owner else []
                for i in range(len(path) + 1):
                    table[".".join(path[:i])].add(k)
        for a in self.sites_a:
            if a.is_leaf or a.key in self.used_a or a.name not in holds[0]:
                continue
            best: list[tuple[tuple[bool, float, int, float], Candidate]] = []
            for b in self.sites_b:
                if b.is_leaf or b.key in self.used_b or b.call != a.call or b.name not in holds[1]:
                    continue
                mine, theirs = holds[0][a.name], holds[1][b.name]
                share = len(mine & theirs) / len(mine | theirs)
                for view in self._views(a, b, "container") if share >= 0.8 else ():
                    if share > 0.999 or view.is_like:
                        rank = (not view.is_like, -share, abs(a.depth - b.depth), view.distance)
                        best.append((rank, view))
            if best:
                self._add(min(best, key=lambda one: one[0])[1])

    def _window(self, site: Site) -> tuple[int, int]:
        """Return between which ends of the other model the partner of a site must lie."""
        before = [p.b.end for p in self.pairs if p.a.end < site.start]
        after = [p.b.end for p in self.pairs if p.a.end > site.end]
        return max(before, default=0), min(after, default=1 << 60)

    def _pair_rest(self) -> None:
        """Pair what is left between its neighbours: by value, else the only one of its kind."""
        for _, views in self._left():
            like = [view for view in views if view.is_like]
            if like:
                self._add(min(like, key=self._unlikeness))
        for a, views in self._left():
            leaves = [v for v in views if v.a.is_leaf and v.b.is_leaf]
            same = [v for v in leaves if is_similar(a, v.b)]
            named = [v for v in leaves if v.b.name == a.name]
            if named or len({v.b.key for v in same}) == 1:
                chosen = (named or same)[0]
                chosen.how = "name" if named else "position"
                self._add(chosen)

    def _left(self) -> Iterator[tuple[Site, list[Candidate]]]:
        """Yield each site without a partner, and what of the other model may be it."""
        for a in self.sites_a:
            if a.key in self.used_a or not a.parts:
                continue
            low, high = self._window(a)
            near = [
                b
                for b in self.sites_b
                if b.key not in self.used_b and b.parts and low <= b.end and b.start <= high
            ]
            yield a, [view for b in near for view in self._views(a, b, "value")]

    def _refute(self) -> None:
        """Refuse pairs that deviate although what they are a part of, or what follows, agrees."""
        self.pairs.sort(key=lambda p: (p.a.end, p.b.end))
        kept = []
        for i, pair in enumerate(self.pairs):
            why = (
                "" if pair.how == "map" or pair.is_like else self._doubt(pair, self.pairs[i + 1 :])
            )
            if not why:
                kept.append(pair)
                continue
            self.refused.append((pair.name_a, pair.name_b, f"unlike points: {why}"))
            self.used_a.discard(pair.a.key)
            self.used_b.discard(pair.b.key)
        self.pairs = kept

    def _doubt(self, pair: Candidate, later: list[Candidate]) -> str:
        """Return why the two sites of a pair are unlike points; "": they are not."""
        by, rest = pair.x.factor(pair.y)
        if rest < pair.most_alike and later and later[0].is_like:
            return f"a factor of {by:.4g}, but {later[0].name_a} agrees: it is scaled elsewhere"
        outer = self._enclosing(pair, later)
        if outer is not None and outer.is_like:
            ratio = LEAST_RATIO_SHORT if outer.is_short else LEAST_RATIO
            if float(outer.found.max()) * ratio < float(pair.found.max()):
                return (
                    f"{pair.distance:.1e} apart, but {outer.name_a} agrees to {outer.distance:.1e}"
                )
        return ""

    def _enclosing(self, pair: Candidate, later: list[Candidate]) -> Candidate | None:
        """Return the first container that ends after a pair.

        Not just any later site: up_proj runs after act_fn, but does not depend on it.
        """
        is_after: Callable[[Candidate], bool] = lambda p: (  # noqa: E731
            p.how == "container" and p.a.end > pair.a.end and p.b.end > pair.b.end
        )
        return next(filter(is_after, later), None)

    def _pair_aliases(self) -> None:
        """Pair what is left by value alone; it may be another name of a pair."""
        for a in self.sites_a:
            if a.key in self.used_a or not a.parts:
                continue
            low, _ = self._window(a)
            views = [
                v
                for b in self.sites_b
                if b.end >= low and b.parts
                for v in self._views(a, b, "value")
            ]
            like = [view for view in views if float(view.found.max()) < LIKE]
            if like:
                best = min(like, key=lambda v: (v.b.key in self.used_b, *self._unlikeness(v)))
                self._add(best)
