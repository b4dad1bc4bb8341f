"""Where a tensor belongs in a job of many ranks: which part of which tensor this rank has.

Rank-local: what a DTensor, its chunk list and the hooks of its module say.  What is not understood
is unknown, never guessed.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from itertools import product
from typing import Any, NamedTuple

from tensortap.private.shards import local_part


class Kind(IntEnum):
    """What the ranks along one axis hold of a tensor: `tt_spread`."""

    REPLICA, SHARD, PARTIAL, BATCH, UNKNOWN = range(5)


class Source(IntEnum):
    """Who said so: `tt_placement_source`."""

    DTENSOR, CHUNKS, HOOK, WRAPPER, USER = range(5)


REDUCTIONS = ("sum", "avg", "max", "min", "product")  # tt_reduction
OTHER = len(REDUCTIONS)
MOST_BOXES = 64  # TT_PLACEMENT_BOXES

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets, sizes


class Spread(NamedTuple):
    """What the ranks along one axis hold; dim and factor of a shard, reduction of a partial one."""

    kind: Kind
    dim: int = 0
    factor: int = 1
    reduction: int = 0


REPLICA, BATCH, UNKNOWN = Spread(Kind.REPLICA), Spread(Kind.BATCH), Spread(Kind.UNKNOWN)


class Part(NamedTuple):
    """What this rank has of a tensor.

    Attributes:
        spreads: One for each axis.
        shape: Of the whole tensor; None: not known.
        boxes: What this rank has of it; none: not known.
        source: Who said so.
    """

    spreads: tuple[Spread, ...]
    shape: tuple[int, ...] | None
    boxes: tuple[Box, ...]
    source: Source

    def along(self, spreads: tuple[Spread, ...]) -> Part:
        """Return the same on a mesh with other axes."""
        return self._replace(spreads=spreads)

    def said_by(self, source: Source) -> Part:
        """Return the same as another one says it."""
        return self._replace(source=source)

    def without_shape(self) -> Part:
        """Return the same for tensors of any shape."""
        return self._replace(shape=None, boxes=())


def spread_of(placement: Any, ndim: int) -> Spread:
    """Return what a placement of torch says about a tensor with so many dimensions."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    kind = type(placement)
    if kind is Replicate:
        return REPLICA
    is_strided = kind.__name__ == "_StridedShard"
    if kind is Shard or is_strided:
        dim = placement.dim + ndim if placement.dim < 0 else placement.dim
        factor = int(placement.split_factor) if is_strided else 1
        return Spread(Kind.SHARD, dim, factor) if 0 <= dim < ndim and factor > 0 else UNKNOWN
    if isinstance(placement, Partial):
        is_plain = kind is Partial or kind.__name__ == "_MaskPartial"
        word = placement.reduce_op
        is_known = is_plain and word in REDUCTIONS
        return Spread(Kind.PARTIAL, reduction=REDUCTIONS.index(word) if is_known else OTHER)
    return UNKNOWN


def part_of(tensor: Any, spec: Any) -> Part:
    """Return what this rank has of a tensor.

    Args:
        tensor: A DTensor, or the local part of one.
        spec: Its DTensorSpec.
    """
    shape = tuple(map(int, spec.tensor_meta.shape)) if spec.tensor_meta is not None else None
    local = local_part(tensor)
    ndim = len(shape) if shape is not None else local.ndim
    spreads = tuple(spread_of(one, ndim) for one in spec.placements)
    if shape is None:
        return Part(spreads, None, (), Source.DTENSOR)
    at = spec.mesh.get_coordinate()
    boxes = boxes_of(shape, spec.mesh.shape, at, spreads)
    source, has = Source.DTENSOR, local.numel()
    chunks = _chunks_of(tensor) if local is not tensor else None
    if chunks is not None and not (len(boxes) > 1 and chunks[0][0] == boxes[0][0]):
        boxes, source = chunks, Source.CHUNKS  # torch's own list has only the first of several
    if boxes and sum(math.prod(sizes) for _, sizes in boxes) != has:
        # They speak of another tensor.
        spreads = tuple(UNKNOWN if one.kind == Kind.SHARD else one for one in spreads)
        boxes = ()
    return Part(spreads, shape, boxes if len(boxes) <= MOST_BOXES else (), source)


def _chunks_of(tensor: Any) -> tuple[Box, ...] | None:
    """Return the chunk list of a DTensor; None: it has none (it is partial, for example)."""
    try:
        chunks = tensor.__create_chunk_list__()
    except Exception:
        return None
    found = tuple((tuple(map(int, c.offsets)), tuple(map(int, c.sizes))) for c in chunks)
    return found or None


def boxes_of(
    shape: Sequence[int], sizes: Sequence[int], at: Sequence[int], spreads: Sequence[Spread]
) -> tuple[Box, ...]:
    """Return the boxes of a tensor that one rank has; none where that is not known.

    Args:
        shape: Of the whole tensor.
        sizes: Of the mesh.
        at: The coordinate of the rank.
        spreads: One for each dimension of the mesh; shards apply from left to right.
    """
    if any(one.kind in (Kind.UNKNOWN, Kind.PARTIAL) for one in spreads):
        return ()
    runs = [[(0, size)] for size in shape]  # of each dimension: (offset, size)
    for size, here, one in zip(sizes, at, spreads, strict=True):
        if one.kind == Kind.SHARD:
            whole = sum(length for _, length in runs[one.dim])
            # Each of `factor` chunks is chunked again; a rank has one chunk of each.
            wanted = [
                (start + inner, length)
                for start, total in _chunks(whole, one.factor)
                for inner, length in _chunks(total, size)[here : here + 1]
            ]
            runs[one.dim] = _select(runs[one.dim], wanted)
    if math.prod(map(len, runs)) > MOST_BOXES:
        return ()
    return tuple(
        (tuple(start for start, _ in box), tuple(length for _, length in box))
        for box in product(*runs)
    )


def _chunks(total: int, count: int) -> list[tuple[int, int]]:
    """Chunk a range as torch.chunk does; the last ones may be empty."""
    step = -(-total // count)
    starts = [min(i * step, total) for i in range(count)]
    return [(start, min(step, total - start)) for start in starts]


def _select(runs: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the wanted ranges of what the runs hold one after the other, neighbours joined."""
    found: list[tuple[int, int]] = []
    for start, length in wanted:
        before = 0
        for offset, size in runs:
            low, high = max(start, before), min(start + length, before + size)
            if low < high:
                at = offset + low - before
                if found and sum(found[-1]) == at:
                    found[-1] = (found[-1][0], found[-1][1] + high - low)
                else:
                    found.append((at, high - low))
            before += size
    end = max((offset + size for offset, size in runs), default=0)
    return found or [(end, 0)]
