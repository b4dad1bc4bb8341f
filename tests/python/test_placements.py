"""Where a tensor belongs: placements against torch's own arithmetic and against whole tensors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

from tensortap.models.placement import (  # noqa: E402
    Kind,
    Part,
    Source,
    boxes_of,
    part_of,
    spread_of,
)
from tensortap.private.meshes import axes_of, grid_of  # noqa: E402

pytestmark = needs_sharding_on_cpu


def placements() -> list[Any]:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    return [
        Replicate(),
        Shard(0),
        Shard(1),
        _StridedShard(0, split_factor=2),
        _StridedShard(1, split_factor=3),
    ]


@pytest.mark.parametrize("shape", [(8, 4), (10, 3), (1, 5), (7, 7), (0, 4)])
@pytest.mark.parametrize("mesh", [(2,), (4,), (2, 2), (4, 2), (3, 2)])
def test_boxes_agree_with_torchs_own_arithmetic(
    shape: tuple[int, ...], mesh: tuple[int, ...]
) -> None:
    from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset

    for chosen in itertools.product(placements(), repeat=len(mesh)):
        spreads = [spread_of(one, len(shape)) for one in chosen]
        for at in itertools.product(*map(range, mesh)):
            boxes = boxes_of(shape, mesh, at, spreads)
            local, first = _compute_local_shape_and_global_offset(shape, mesh, list(at), chosen)
            assert sum(math.prod(sizes) for _, sizes in boxes) == math.prod(local), (chosen, at)
            if math.prod(local):
                assert boxes[0][0] == first, (chosen, at)


@pytest.mark.parametrize("mesh", [(2, 2), (4, 2), (3, 2)])
def test_the_boxes_of_all_shards_cover_the_tensor_once(mesh: tuple[int, ...]) -> None:
    shape = (10, 7)
    shards = placements()[1:]
    for chosen in itertools.product(shards, repeat=2):
        spreads = [spread_of(one, 2) for one in chosen]
        seen = torch.zeros(shape, dtype=torch.int64)
        for at in itertools.product(*map(range, mesh)):
            for (row, column), (height, width) in boxes_of(shape, mesh, at, spreads):
                seen[row : row + height, column : column + width] += 1
        assert bool((seen == 1).all()), chosen


def test_kinds_of_partial_tensors_are_told_apart_and_others_are_unknown() -> None:
    from torch.distributed.tensor import Partial, Shard

    class Ragged(Shard):
        pass

    class Odd(Partial):
        pass

    sums = [spread_of(Partial(word), 2).reduction for word in ("sum", "avg", "max", "product")]
    assert sums == [0, 1, 2, 4]
    assert spread_of(Odd("sum"), 2).reduction == 5
    assert spread_of(Ragged(0), 2).kind == Kind.UNKNOWN
    assert spread_of(Shard(-1), 3).dim == 2


# ---- real ranks


def describe(tensor: Any) -> tuple[Any, Part, Any, Any]:
    axes = axes_of(tensor.device_mesh)
    grid = grid_of(axes) if axes is not None else None
    part = part_of(tensor, tensor._spec)
    return tuple(grid), tuple(part), tensor.to_local().detach(), tensor.full_tensor().detach()


def shard(rank: int, world: int, way: str, rows: int) -> list[Any]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, rows), torch.nn.Linear(rows, 6))
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
    if way == "fsdp":
        fully_shard(model)
    elif way == "hsdp":
        mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh)
    elif way == "tp":
        parallelize_module(model, init_device_mesh("cpu", (world,), mesh_dim_names=("tp",)), plan)
    else:
        mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(model, mesh["tp"], plan)
        fully_shard(model, mesh=mesh["dp"])
    model(torch.randn(3, 6)).sum().backward()
    return [describe(t) for one in model.parameters() for t in (one, one.grad)]


@pytest.mark.parametrize(
    ("way", "world", "rows"),
    [
        ("fsdp", 2, 8),
        ("fsdp", 4, 5),  # 2, 2, 1 and no rows
        ("hsdp", 4, 7),
        ("tp", 2, 8),
        ("fsdp tp", 4, 8),  # strided
        ("fsdp tp", 4, 10),
    ],
)
def test_each_rank_has_what_its_boxes_say(way: str, world: int, rows: int) -> None:
    for tensors in zip(*said(run_ranks(world, shard, way, rows)), strict=True):
        counts = torch.zeros(tensors[0][3].shape)
        for rank, (grid, part, local, whole) in enumerate(tensors):
            names, sizes, coordinate, ranks = grid
            spreads, shape, boxes, source = part
            assert shape == tuple(whole.shape)
            assert source == Source.CHUNKS
            assert (
                ranks[coordinate[-1] + (coordinate[0] * sizes[1] if len(sizes) > 1 else 0)] == rank
            )
            ((offset, size),) = boxes
            cut = tuple(slice(a, a + n) for a, n in zip(offset, size, strict=True))
            assert torch.equal(whole[cut], local)
            counts[cut] += 1
            assert len(names) == len(spreads)
        replicas = math.prod(
            n for n, one in zip(sizes, spreads, strict=True) if one[0] == Kind.REPLICA
        )
        assert bool((counts == replicas).all())


def partial(rank: int, world: int) -> list[Any]:
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Shard

    mesh = init_device_mesh("cpu", (world,))
    addend = DTensor.from_local(torch.ones(2, 3), mesh, [Partial()])
    strange = DTensor.from_local(torch.ones(2, 3), mesh, [Shard(0)], shape=(7, 3), stride=(3, 1))
    small = DeviceMesh("cpu", [0])
    return [
        tuple(part_of(addend, addend._spec)),
        tuple(part_of(strange, strange._spec)),
        axes_of(small) is None,
    ]


def test_what_is_not_understood_is_unknown() -> None:
    for rank, (addend, strange, is_outside) in enumerate(said(run_ranks(2, partial))):
        assert addend == (((Kind.PARTIAL, 0, 1, 0),), (2, 3), (), Source.DTENSOR)
        assert strange[0][0][0] == Kind.UNKNOWN  # 7 rows are 4 and 3, not 2 and 2
        assert strange[2] == ()
        assert is_outside == (rank == 1)
