"""Find out which parameters of two models have the same content, whatever their names.

    q_proj.weight [64, 64]   are rows 0 to 63 of   qkv_proj.weight [192, 64]
    c_fc.weight [64, 256]    is the transpose of   up.weight [256, 64]

Every row and every column of a matrix has a digest, of its values rounded to bfloat16, so that
copies in float32 and in bfloat16 have the same.  Rows that are constant (zeros, ones, padding)
identify nothing and do not vote.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensortap.implementations.comparison import few, folded
from tensortap.runs.tokens import DTYPES, VERSION, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    Digests = np.ndarray[Any, np.dtype[np.uint64]]
    Numbers = np.ndarray[Any, np.dtype[np.intp]]

LEAST_SHARE = 0.5  # of the rows that must be found
MOST_LISTED = 10  # parameters that differ
SAME = ("equal in every bit", "equal but for their types")
MOST_TWINS = 64  # equal rows elsewhere that are looked at


@dataclass
class Axis:
    """Digests along one axis of a matrix."""

    digests: Digests

    def __post_init__(self) -> None:
        self.counts = (self.digests & np.uint64(1)).astype(bool)  # of each: it is not constant

    def __len__(self) -> int:
        return len(self.digests)


@dataclass
class Weight:
    """A parameter: its name, the module that owns it, and digests of its content.

    Attributes:
        digest: Of the whole.
        axes: "rows" and "columns"; a vector is one row.
        value: The parameter itself, if it is here.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: tuple[int, int]
    axes: dict[str, Axis]
    value: torch.Tensor | None = None

    def __post_init__(self) -> None:
        self.owner, _, self.key = self.name.rpartition(".")
        rows = self.axes["rows"]
        self.is_constant = not rows.counts.any() and bool((rows.digests == rows.digests[0]).all())

    @classmethod
    def of_numbers(cls, name: str, numbers: Numbers, value: torch.Tensor | None = None) -> Weight:
        """Read the numbers that `numbers_of` made; ValueError: they are none."""
        version, dtype, ndim = (int(x) for x in numbers[:3])
        shape = tuple(int(x) for x in numbers[3 : 3 + ndim])
        height = shape[0] if ndim > 1 else 1
        width = math.prod(shape) // height if height > 0 else 0
        rest = numbers[3 + ndim :].astype(np.int64).view(np.uint64)
        is_valid = version == VERSION and 0 <= dtype < len(DTYPES) and min(shape, default=0) > 0
        if not is_valid or len(rest) != 2 + height + width:
            raise ValueError(f"the digests of {name} make no sense")
        axes = {"rows": Axis(rest[2 : 2 + height]), "columns": Axis(rest[2 + height :])}
        return cls(name, DTYPES[dtype], shape, (int(rest[0]), int(rest[1])), axes, value)

    def against(self, other: Weight) -> str:
        """Describe how its content differs from that of another of the same shape."""
        if self.digest == other.digest:
            return SAME[0]
        if (self.axes["rows"].digests != other.axes["rows"].digests).any():
            return "different"
        return SAME[1] if self.dtype != other.dtype else "equal but for rounding to bfloat16"

    def size(self, axis: str) -> int:
        """Return the number of rows, columns or elements."""
        return math.prod(self.shape) if axis == "elements" else len(self.axes[axis])

    @property
    def is_matrix(self) -> bool:
        """Whether it has two dimensions or more; those behind the first are one."""
        return len(self.shape) > 1


def weights_of(model: torch.nn.Module) -> list[Weight]:
    """Return the parameters of a model that hold something; a tied one under each of its names."""
    found = []
    for name, value in model.named_parameters(remove_duplicate=False):
        numbers = numbers_of(value) if value.ndim > 0 and value.numel() > 0 else None
        if numbers is not None:
            found.append(Weight.of_numbers(name, np.frombuffer(numbers, np.int64), value))
    return found


@dataclass
class Match:
    """Rows or columns of a parameter that are rows or columns of another.

    Attributes:
        a, b: The two parameters.
        axes: Along which axis of each.
        in_a, in_b: Numbers of the rows that correspond, one by one.
        unlike: How many of these have another content: a weight of which one row was changed.
    """

    a: Weight
    b: Weight
    axes: tuple[str, str]
    in_a: Numbers
    in_b: Numbers
    unlike: int = 0

    @property
    def part(self) -> str:
        """Whether the first is a "part" of the second, the second of the first ("whole"), or ""."""
        size_a, size_b = self.a.size(self.axes[0]), self.b.size(self.axes[1])
        return "part" if size_a < size_b else "whole" if size_a > size_b else ""

    @property
    def is_permuted(self) -> bool:
        """Whether the rows stand in another order."""
        return len(self.in_a) > 0 and bool(
            (self.in_b - self.in_a != self.in_b[0] - self.in_a[0]).any()
        )

    @property
    def relation(self) -> str:
        """How the two hang together: "equal", "transposed", "part, permuted"."""
        words = ["transposed"] if self.axes[0] != self.axes[1] else []
        words += [self.part] if self.part else []
        words += ["permuted"] if self.is_permuted else []
        words += (
            [f"but for {self.unlike} of {len(self.in_a)} {self.axes[0]}"] if self.unlike else []
        )
        return ", ".join(words) or "equal"

    def difference(self) -> str:
        """Describe whether the values are equal in every bit, rounded, or partly different."""
        if self.unlike:
            return f"equal but for {self.unlike} of {len(self.in_a)} {self.axes[0]}"
        if self.a.dtype != self.b.dtype:
            return SAME[1]
        if self.a.digest == self.b.digest or self._has_equal_values():
            return SAME[0]
        is_known = self.a.shape == self.b.shape or self.a.value is not None
        return f"equal {'but for' if is_known else 'after'} rounding to bfloat16"

    def _has_equal_values(self) -> bool:
        import torch

        a, b = self.a.value, self.b.value
        if a is None or b is None:
            return False
        x, y = a.detach().cpu(), b.detach().cpu()
        x, y = (t.reshape(t.shape[0], -1) if t.ndim > 1 else t.reshape(1, -1) for t in (x, y))
        x = x[self.in_a] if self.axes[0] == "rows" else x.T[self.in_a]
        y = y[self.in_b] if self.axes[1] == "rows" else y.T[self.in_b]
        return torch.equal(x, y)


def _vote(
    p: Weight, axis: str, index: dict[int, list[tuple[int, int]]]
) -> dict[int, dict[int, int]]:
    """Find the rows of *p* in other parameters: number of the parameter -> {row: its row}."""
    votes: dict[int, dict[int, int]] = defaultdict(dict)
    digests = p.axes[axis].digests
    for i in np.flatnonzero(p.axes[axis].counts):
        for other, j in index.get(int(digests[i]), ())[:MOST_TWINS]:
            votes[other].setdefault(int(i), j)
    return votes


def _index(weights: list[Weight], axis: str) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for k, weight in enumerate(weights):
        if axis in weight.axes and not weight.is_constant:
            for j in np.flatnonzero(weight.axes[axis].counts):
                found[int(weight.axes[axis].digests[j])].append((k, int(j)))
    return found


def match(of_a: list[Weight], of_b: list[Weight]) -> list[Match]:
    """Return the parameters of two models that have content in common."""
    found: list[Match] = []
    index = {axis: _index(of_b, axis) for axis in ("rows", "columns")}
    for p in of_a:
        if not p.is_constant:
            found += _match_one(p, of_b, index)
    return found


def _match_one(
    p: Weight, of_b: list[Weight], index: dict[str, dict[int, list[tuple[int, int]]]]
) -> Iterable[Match]:
    """Find one parameter.  The first pair of axes that has something decides."""
    if not p.is_matrix:
        return _along(p, of_b, ("rows", "rows"), index["rows"]) or _match_vector(p, of_b)
    pairs = (("rows", "rows"), ("columns", "columns"), ("rows", "columns"), ("columns", "rows"))
    candidates = [_along(p, of_b, axes, index[axes[1]]) for axes in pairs]
    whole = [[m for m in some if not m.part and not m.is_permuted] for some in candidates]
    return next(filter(None, whole), next(filter(None, candidates), []))


def _match_vector(p: Weight, of_b: list[Weight]) -> list[Match]:
    """Find a vector inside a longer one, or a shorter one inside it: the biases of q, k and v."""
    found: list[Match] = []
    mine = p.axes["columns"].digests
    for q in of_b:
        if q.is_matrix or q.is_constant or q.shape == p.shape:
            continue
        theirs = q.axes["columns"].digests
        is_part = len(mine) < len(theirs)
        short, long = (mine, theirs) if is_part else (theirs, mine)
        last = len(long) - len(short)
        starts = np.flatnonzero(long[: last + 1] == short[0])
        start = next((int(i) for i in starts if (long[i : i + len(short)] == short).all()), None)
        if start is not None:
            inside, whole = np.arange(start, start + len(short)), np.arange(len(short))
            in_a, in_b = (whole, inside) if is_part else (inside, whole)
            found.append(Match(p, q, ("elements", "elements"), in_a, in_b))
    return found


def _along(
    p: Weight, of_b: list[Weight], axes: tuple[str, str], index: dict[int, list[tuple[int, int]]]
) -> list[Match]:
    found = []
    size = len(p.axes[axes[0]])
    for k, rows in _vote(p, axes[0], index).items():
        q = of_b[k]
        if p.is_matrix != q.is_matrix:
            continue
        needed = min(int(w.axes[x].counts.sum()) for w, x in ((p, axes[0]), (q, axes[1])))
        if len(rows) < LEAST_SHARE * needed or (size > 1 and len(rows) < 2):
            continue
        in_a = np.array(sorted(rows), dtype=np.intp)
        in_b = np.array([rows[int(i)] for i in in_a], dtype=np.intp)
        found.append(_complete(Match(p, q, axes, in_a, in_b)))
    return found


def _complete(m: Match) -> Match:
    """Add the rows between those that were found: constant ones, and ones that were changed."""
    a, b = (w.axes[x].digests for w, x in zip((m.a, m.b), m.axes, strict=True))
    offset = int(m.in_b[0] - m.in_a[0])
    first, last = max(0, -offset), min(len(a), len(b) - offset)
    if m.is_permuted or last - first < min(len(a), len(b)):
        return m
    in_a = np.arange(first, last, dtype=np.intp)
    unlike = int((a[in_a] != b[in_a + offset]).sum())
    return Match(m.a, m.b, m.axes, in_a, in_a + offset, unlike)


@dataclass
class WeightComparison:
    """Which parameters of two models have the same content.

    Attributes:
        names: What the two are called.
        equal: Names of the first that are equal in every bit in the second.
        rounded: Those that are equal once both are rounded to bfloat16.
        alike: The same of those that are a part of a fused one, or transposed: whether they are
            equal in every bit is not known.
        different: Those that are there with another content, and how.
        missing_b, missing_a: Those that the second has not, and that the first has not.
    """

    names: tuple[str, str]
    equal: list[str]
    rounded: list[str]
    alike: list[str]
    different: list[tuple[str, str]]
    missing_b: list[str]
    missing_a: list[str]

    @classmethod
    def of(cls, a: list[Weight], b: list[Weight], names: tuple[str, str]) -> WeightComparison:
        """Compare the parameters of two models, by content, then by name."""
        result = cls(names, [], [], [], [], [], [])
        found: dict[str, list[Match]] = defaultdict(list)
        for m in match(a, b):
            found[m.a.name].append(m)
        seen = {m.b.name for some in found.values() for m in some}
        named = {w.name: w for w in b}
        for weight in a:
            matches, other = found.get(weight.name, []), named.get(weight.name)
            same_name = [m for m in matches if m.b.name == weight.name]
            best = min(same_name or matches, key=lambda m: m.unlike, default=None)
            if best is not None and best.unlike:
                text = f"{best.unlike} of {len(best.in_a)} {best.axes[0]} differ"
                result.different.append((weight.name, text))
            elif best is not None:
                is_equal = best.difference() == SAME[0]
                is_whole = weight.shape == best.b.shape
                kind = result.equal if is_equal else result.rounded if is_whole else result.alike
                kind.append(weight.name)
            elif other is not None:
                seen.add(other.name)
                if weight.shape == other.shape and weight.digest == other.digest:
                    result.equal.append(weight.name)
                elif weight.shape != other.shape:
                    text = f"{list(weight.shape)} and {list(other.shape)}"
                    result.different.append((weight.name, text))
                elif (weight.axes["rows"].digests == other.axes["rows"].digests).all():
                    result.rounded.append(weight.name)
                else:
                    result.different.append((weight.name, "its content differs"))
            elif weight.is_constant:
                continue  # a bias of zeros under another name: nobody can tell
            else:
                result.missing_b.append(weight.name)
        result.missing_a = [w.name for w in b if w.name not in seen and not w.is_constant]
        return result

    @property
    def is_equal(self) -> bool:
        """Whether nothing is different or missing."""
        return not (self.different or self.missing_a or self.missing_b)

    @property
    def text(self) -> str:
        """The answer in a few lines."""
        count = len(self.equal) + len(self.rounded) + len(self.alike)
        count += len(self.different) + len(self.missing_b)
        lines = [f"{len(self.equal)} of {count} parameters are equal in every bit"]
        if self.rounded:
            lines.append(f"{len(self.rounded)} are equal after rounding to bfloat16")
        if self.alike:
            lines.append(
                f"{len(self.alike)} are parts of fused weights, or transposed, and are equal after "
                "rounding to bfloat16; more is not known of them"
            )
        if self.different:
            lines.append(f"{len(self.different)} differ:")
            lines += [f"  {name}: {text}" for name, text in self.different[:MOST_LISTED]]
            if len(self.different) > MOST_LISTED:
                lines.append(f"  and {len(self.different) - MOST_LISTED} more; --json lists all")
        for title, missing in zip(
            reversed(self.names), (self.missing_b, self.missing_a), strict=True
        ):
            if missing:
                lines.append(
                    f"{len(missing)} have no counterpart in {title}: {few(folded(missing))}"
                )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields."""
        return {"schema": 1, **asdict(self)}
