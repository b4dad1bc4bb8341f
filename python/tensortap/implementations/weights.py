"""Find out which parameters of two models have the same content, whatever their names.

    q_proj.weight [64, 64]   are rows 0 to 63 of   qkv_proj.weight [192, 64]
    c_fc.weight [64, 256]    is the transpose of   up.weight [256, 64]

Every row and every column of a matrix has a digest, of its values rounded to bfloat16, so that
copies in float32 and in bfloat16 have the same.  Rows that are constant (zeros, ones, padding)
identify nothing and do not vote.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    Digests = np.ndarray[Any, np.dtype[np.uint64]]
    Numbers = np.ndarray[Any, np.dtype[np.intp]]

LEAST_SHARE = 0.5  # of the rows that must be found
MOST_TWINS = 64  # equal rows elsewhere that are looked at
_SEED, _MULTIPLIER = 7, np.uint64(0xBF58476D1CE4E5B9)


def _mix(x: Digests) -> Digests:
    x = x ^ (x >> np.uint64(29))
    x = x * _MULTIPLIER
    return x ^ (x >> np.uint64(32))


def _odd_numbers(count: int) -> Digests:
    generator = np.random.Generator(np.random.PCG64(_SEED))
    return generator.integers(1, 2**63, count, dtype=np.uint64) | np.uint64(1)


@dataclass
class Axis:
    """Digests along one axis of a matrix."""

    digests: Digests
    counts: Any  # bool of each: it is not constant

    def __len__(self) -> int:
        return len(self.digests)


@dataclass
class Weight:
    """A parameter: its name, the module that owns it, and digests of its content."""

    name: str
    value: torch.Tensor
    axes: dict[str, Axis] = field(init=False)  # "rows", and of a matrix "columns"

    def __post_init__(self) -> None:
        self.owner = self.name.rpartition(".")[0]
        bits = _rounded_bits(self.value)
        with np.errstate(over="ignore"):
            mixed = _mix(bits + np.uint64(1))
            rows = _mix((mixed * _odd_numbers(bits.shape[1])[None, :]).sum(1))
            self.axes = {"rows": Axis(rows, (bits != bits[:, :1]).any(1))}
            if self.is_matrix:
                columns = _mix((mixed * _odd_numbers(bits.shape[0])[:, None]).sum(0))
                self.axes["columns"] = Axis(columns, (bits != bits[:1]).any(0))
        self.is_constant = bool((bits == bits.flat[0]).all()) if bits.size else True

    def size(self, axis: str) -> int:
        """Return the number of rows, columns or elements."""
        return self.value.numel() if axis == "elements" else len(self.axes[axis])

    @property
    def is_matrix(self) -> bool:
        """Whether it has two dimensions or more; those behind the first are one."""
        return self.value.ndim > 1


def _rounded_bits(value: torch.Tensor) -> Digests:
    import torch

    flat = value.detach().to("cpu")
    flat = flat.reshape(flat.shape[0], -1) if flat.ndim > 1 else flat.reshape(1, -1)
    if not flat.is_floating_point():
        return flat.numpy().astype(np.int64).view(np.uint64)
    bits = flat.to(torch.bfloat16).contiguous().view(torch.int16).numpy()
    return bits.astype(np.uint16).astype(np.uint64)


def weights_of(model: torch.nn.Module) -> list[Weight]:
    """Return the parameters of a model that hold something; a tied one under each of its names."""
    named = model.named_parameters(remove_duplicate=False)
    return [Weight(name, value) for name, value in named if value.numel() > 0]


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
        """Say if the values are equal in every bit, were rounded, or partly differ."""
        import torch

        if self.unlike:
            return f"equal but for {self.unlike} of {len(self.in_a)} {self.axes[0]}"
        if self.a.value.dtype != self.b.value.dtype:
            return "equal but for their types"
        x, y = (w.value.detach().cpu() for w in (self.a, self.b))
        x, y = (t.reshape(t.shape[0], -1) if t.ndim > 1 else t.reshape(1, -1) for t in (x, y))
        x = x[self.in_a] if self.axes[0] == "rows" else x.T[self.in_a]
        y = y[self.in_b] if self.axes[1] == "rows" else y.T[self.in_b]
        return "equal in every bit" if torch.equal(x, y) else "equal but for rounding to bfloat16"


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
    mine = _rounded_bits(p.value)[0]
    for q in of_b:
        if q.is_matrix or q.is_constant or q.value.numel() == p.value.numel():
            continue
        theirs = _rounded_bits(q.value)[0]
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
