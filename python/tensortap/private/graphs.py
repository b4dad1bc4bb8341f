"""Which dimensions of a plain tensor are split over ranks, from torch's graph of what made it.

The local part of a DTensor keeps no placement, but the graph remembers it.  Operators that work on
each part alone (element-wise ones, views of heads, attention within heads) make parts again; where
one mixes what other ranks have, or is not known here, nothing is said.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Shape = tuple[int, ...]

MOST_NODES = 512  # of the graph that are asked: a residual stream is as long as the model is deep


class Unsure(Exception):
    """It is not certain which dimensions are split."""


class Cut(NamedTuple):
    """A dimension that is split; in one piece: each rank has one range of it."""

    dim: int
    is_one_piece: bool = True


Cuts = frozenset[Cut]


class Splits(NamedTuple):
    """A tensor, and along each axis of a mesh the dimensions that are split."""

    shape: Shape
    along: tuple[Cuts, ...]

    @property
    def any(self) -> set[int]:
        """The dimensions that are split along any axis."""
        return {one.dim for cuts in self.along for one in cuts}

    def moved(self, shape: Shape, to: Callable[[Cut], set[Cut]]) -> Splits:
        """Return those of a tensor each of whose dimensions comes from the ones of this."""
        moved = (frozenset().union(*(to(one) for one in cuts)) for cuts in self.along)
        return Splits(shape, tuple(moved))

    def numbered(self, shape: Shape, number: Callable[[int], int]) -> Splits:
        """Return the same where dimensions have other numbers."""
        return self.moved(shape, lambda one: {Cut(number(one.dim), one.is_one_piece)})


Rule = Callable[[Any, Shape, Sequence[Splits]], Splits]


def splits_of(tensor: Any) -> tuple[Any, tuple[set[int], ...]] | None:
    """Return the mesh over which a plain tensor is split, and its dimensions along each axis.

    None: there is no graph, or nothing in it is split, or it is not certain.
    """
    mesh: Any = None
    known: dict[Any, tuple[Cuts, ...] | None] = {}  # None: a leaf
    waiting = [tensor.grad_fn] if tensor.grad_fn is not None else []
    try:
        while waiting:
            node = waiting[-1]
            spec = getattr(node, "dtensor_spec", None)
            before = [one for one, _ in node.next_functions if one is not None]
            rule = _rule_of(node)
            more = [one for one in before if one not in known]
            if node in known or node.name().endswith("AccumulateGrad"):
                known.setdefault(node, None)
            elif spec is not None and (mesh is None or mesh == spec.mesh):
                mesh = spec.mesh
                known[node] = _cuts_of(spec, len(_shape_of(node, 0)))
            elif rule is None or len(known) + len(waiting) > MOST_NODES:
                return None
            elif more:
                waiting += more
                continue
            else:
                known[node] = _through(rule, node, known)
            waiting.pop()
    except (
        Unsure,
        AttributeError,
        IndexError,
        TypeError,
    ):  # another torch keeps other things in its nodes
        return None
    along = known.get(tensor.grad_fn) or ()
    return (mesh, tuple({one.dim for one in cuts} for cuts in along)) if any(along) else None


def _cuts_of(spec: Any, ndim: int) -> tuple[Cuts, ...]:
    found = []
    for one in spec.placements:
        kind = type(one).__name__
        if kind not in ("Replicate", "Shard"):
            raise Unsure
        found.append(frozenset({Cut(one.dim % ndim)}) if kind == "Shard" else frozenset())
    return tuple(found)


def _through(
    rule: Rule, node: Any, known: dict[Any, tuple[Cuts, ...] | None]
) -> tuple[Cuts, ...] | None:
    """Return what an operator makes of its inputs; None: it has only leaves."""
    read = [(one, number) for one, number in node.next_functions if one is not None]
    axes = next((len(cuts) for one, _ in read if (cuts := known[one]) is not None), None)
    if axes is None:
        return None
    inputs = [
        Splits(_shape_of(one, number), known[one] or (frozenset(),) * axes) for one, number in read
    ]
    return rule(node, _shape_of(node, 0), inputs).along


def _shape_of(node: Any, number: int) -> Shape:
    """Return the shape of an output of an operator; of a leaf its own."""
    if node.name().endswith("AccumulateGrad"):
        return tuple(node.variable.shape)
    return tuple(map(int, node._input_metadata[number].shape))


def _saved(node: Any, name: str, ndim: int) -> int:
    """Return a dimension that an operator was given; torch shows negative ones as unsigned."""
    dim = int(getattr(node, f"_saved_{name}"))
    return (dim - (1 << 64) if dim >= 1 << 63 else dim) % ndim


def _union(shape: Shape, inputs: Sequence[Splits]) -> Splits:
    axes = zip(*(one.along for one in inputs), strict=True)
    return Splits(shape, tuple(frozenset().union(*one) for one in axes))


def _broadcast(_: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    aligned = []
    for one in inputs:
        shift = len(shape) - len(one.shape)
        if any(one.shape[dim] != shape[dim + shift] for dim in one.any):
            raise Unsure
        aligned.append(one.numbered(shape, shift.__add__))
    return _union(shape, aligned)


def _view(_: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    """Find what has become of each dimension.

    Dimensions form groups of as many elements.  One of a group that is split in one piece, and
    leads it, leads the new ones; else, and where sizes of 1 leave it open, all of them count.
    """
    (old,) = inputs
    groups: dict[int, tuple[bool, set[int]]] = {}  # whether it leads clearly, and the new ones
    i = j = 0
    while i < len(old.shape) or j < len(shape):
        first, start = i, j
        before, after = old.shape[i : i + 1], shape[j : j + 1]
        elements = [before[0] if before else 1, after[0] if after else 1]
        i, j = i + len(before), j + len(after)
        while elements[0] != elements[1]:
            if elements[0] < elements[1]:
                elements[0] *= old.shape[i]
                i += 1
            else:
                elements[1] *= shape[j]
                j += 1
        is_same = i - first == 1 and j - start == 1
        for dim in range(first, i):
            is_open = not is_same and (old.shape[dim] == 1 or shape[start] == 1)
            more = {start - 1} if is_open and start > 0 else set()
            groups[dim] = dim == first and not is_open, set(range(start, j)) | more

    def to(cut: Cut) -> set[Cut]:
        is_leading, group = groups[cut.dim]
        if is_leading and (cut.is_one_piece or len(group) == 1):
            return {Cut(min(group), cut.is_one_piece)}
        return {Cut(dim, False) for dim in group}

    return old.moved(shape, to)


def _transpose(node: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    (old,) = inputs
    dims = [0, 1] if node.name() == "TBackward0" else [-1, -1]
    if dims[0] < 0:
        dims = [_saved(node, name, len(shape)) for name in ("dim0", "dim1")]
    other = {dims[0]: dims[1], dims[1]: dims[0]}
    return old.numbered(shape, lambda dim: other.get(dim, dim))


def _permute(node: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    (old,) = inputs
    dims = [int(one) % len(shape) for one in node._saved_dims]
    return old.numbered(shape, dims.index)


def _insert(node: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    at = _saved(node, "dim", len(shape))
    return _union(shape, [one.numbered(shape, lambda d: d + (d >= at)) for one in inputs])


def _select(node: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    """One dimension goes, or only a part of it is left: it must not be a split one."""
    old = inputs[0]
    at = _saved(node, "dim", len(old.shape))
    if at in old.any or len(inputs) > 1:
        raise Unsure
    is_gone = len(shape) < len(old.shape)
    return old.numbered(shape, lambda d: d - (is_gone and d > at))


def _concatenate(node: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    at = _saved(node, "dim", len(shape))
    if any(len(one.shape) != len(shape) or at in one.any for one in inputs):
        raise Unsure
    return _union(shape, inputs)


def _normalize(node: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    """Rows are normalized, each by itself: softmax, layer norm, RMS norm."""
    old, *weights = inputs
    of = getattr(node, "_saved_normalized_shape", None)
    at = set(range(len(shape) - len(of), len(shape))) if of is not None else None
    at = at if at is not None else {_saved(node, "dim", len(shape))}
    if at & old.any or any(one.any for one in weights):
        raise Unsure
    return Splits(shape, old.along)


def _reduce(node: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    (old,) = inputs
    ndim = len(old.shape)
    dims = {(int(d) - (1 << 64) if int(d) >= 1 << 63 else int(d)) % ndim for d in node._saved_dim}
    if not dims or dims & old.any:
        raise Unsure
    is_gone = not node._saved_keepdim
    return old.numbered(shape, lambda d: d - (sum(one < d for one in dims) if is_gone else 0))


def _multiply_batch(_: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    if len(inputs) != 2 or 2 in inputs[0].any or 1 in inputs[1].any:
        raise Unsure
    return _union(shape, [Splits(shape, one.along) for one in inputs])


def _attend(_: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    """Each head of a batch attends by itself: positions and features must not be split."""
    if any(max(one.any, default=-1) >= len(one.shape) - 2 for one in inputs):
        raise Unsure
    if any(len(one.shape) != len(shape) for one in inputs[:3]):
        raise Unsure
    return _union(shape, [Splits(shape, one.along) for one in inputs[:3]])


def _keep(_: Any, shape: Shape, inputs: Sequence[Splits]) -> Splits:
    """Real numbers as complex ones, and back: a last dimension of 2 comes or goes."""
    (old,) = inputs
    if any(dim >= min(len(shape), len(old.shape)) for dim in old.any):
        raise Unsure
    return Splits(shape, old.along)


#: Backward functions of operators, by the beginning of their names.
RULES: tuple[tuple[str, Rule], ...] = (
    # Each element alone, and marks on tensors: FSDP's on inputs, that of full backward hooks.
    (
        "Add|Sub|Mul|Div|Neg|Pow|Exp|Clone|ToCopy|Relu|Gelu|Silu|Tanh|Sigmoid|Elu|LeakyRelu"
        "|Hardtanh|Softplus|NativeDropout|Sqrt|Rsqrt|Abs|Log|Cos|Sin|Where|MaskedFill|Expand|Alias"
        "|RegisterPostBackwardFunction|BackwardHookFunction",
        _broadcast,
    ),
    ("View|UnsafeView|ReshapeAlias", _view),
    ("Transpose|T", _transpose),
    ("Permute", _permute),
    ("Unsqueeze|Stack", _insert),
    ("Slice|Select|Split|SplitWithSizes|Unbind|Squeeze", _select),
    ("Cat", _concatenate),
    ("Softmax|LogSoftmax|NativeLayerNorm|FusedRmsNorm", _normalize),
    ("Mean|Sum", _reduce),
    ("Bmm", _multiply_batch),
    ("ScaledDotProduct[A-Za-z]*Attention[A-Za-z]*", _attend),
    ("ViewAsComplex|ViewAsReal", _keep),
)
PATTERNS = [(re.compile(f"({names})Backward[0-9]?"), rule) for names, rule in RULES]


def _rule_of(node: Any) -> Rule | None:
    name = node.name()
    return next((rule for pattern, rule in PATTERNS if pattern.fullmatch(name)), None)
