"""Digests of parameters that survive resharding: one process against any number of ranks."""

from __future__ import annotations

import itertools
import math
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from commands import tensortap  # noqa: E402
from ranks import run_ranks, said  # noqa: E402
from test_placements_recorded import build  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap import _core  # noqa: E402
from tensortap.models.placement import Kind, Spread, boxes_of  # noqa: E402

pytestmark = needs_sharding_on_cpu

WHOLE = np.random.default_rng(0).normal(size=(10, 7)).astype(np.float32)
MASK = (1 << 64) - 1


def by_definition(tensor: np.ndarray) -> str:
    """Compute what docs/FORMAT.md says, with Python's integers."""
    total = 0
    for index, bits in enumerate(tensor.flatten().view(np.uint32).tolist()):
        w = (index + 1) * 0x9E3779B97F4A7C15 & MASK
        w = (w ^ (w >> 32)) * 0xD6E8FEB86659FD93 & MASK
        w ^= w >> 32
        total += (bits ^ w) * (w | 1)
    return f"{total & ((1 << 128) - 1):032x}"


def write(folder: Path, mesh: tuple[int, ...], spreads: tuple[Spread, ...], whole: Any) -> Any:
    """Write a file for each rank, with its part of a parameter."""
    ranks = array("i", range(math.prod(mesh)))
    for rank, at in enumerate(itertools.product(*map(range, mesh))):
        boxes = boxes_of(whole.shape, mesh, at, spreads)
        rows = [range(b[0][0], b[0][0] + b[1][0]) for b in boxes]
        columns = [range(b[0][1], b[0][1] + b[1][1]) for b in boxes]
        part = whole[np.ix_(*(sorted(set(itertools.chain(*one))) for one in (rows, columns)))]
        run = _core.Recorder(str(folder), rank=rank, products=2 | 128)

        def place(site: int, name: str, tensor: Any, spec: Any, step: int) -> bool:
            mesh_id = run.mesh(("",) * len(mesh), mesh, at, ranks)  # noqa: B023
            run.place(site, 0, mesh_id, 0, spreads, whole.shape, boxes)  # noqa: B023
            return False

        run.placer = place
        run.tensor("parameter/w", np.ascontiguousarray(part))
        run.close()
    return tt.open(folder)


SPREADS = [
    Spread(Kind.REPLICA),
    Spread(Kind.SHARD, 0),
    Spread(Kind.SHARD, 1),
    Spread(Kind.SHARD, 0, 2),
    Spread(Kind.SHARD, 1, 3),
]


@pytest.mark.parametrize("mesh", [(2,), (3,), (2, 2), (4, 2)])
def test_parts_of_every_layout_add_up_to_the_digest_of_the_whole(
    tmp_path: Path, mesh: tuple[int, ...]
) -> None:
    expected = by_definition(WHOLE)
    for number, spreads in enumerate(itertools.product(SPREADS, repeat=len(mesh))):
        run = write(tmp_path / str(number), mesh, spreads, WHOLE)
        assert run.placed_digest("parameter/w", 0).hex() == expected, spreads


def train(rank: int, world: int, way: str, folder: str) -> None:
    model = build(way, world)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with tt.record(folder, model=model, keep="stats,placed"):
        for step in range(2):
            if way == "tp" and step == 1:
                with torch.no_grad():  # two elements of one rank change places
                    row = model.blocks[0].up.weight.to_local()[1]
                    row[:2] = row[:2].flip(0) if rank == 1 else row[:2]
            tokens = torch.arange(24).view(4, 6) % 10
            nn.functional.cross_entropy(
                model(tokens).flatten(0, 1), tokens.flatten() % 6
            ).backward()
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize(("way", "world"), [("ddp", 2), ("fsdp", 4), ("fsdp tp", 4), ("tp", 2)])
def test_weights_of_one_process_and_of_ranks_are_equal_in_every_bit(
    tmp_path: Path, way: str, world: int
) -> None:
    train(0, 1, "plain", str(tmp_path / "one"))
    said(run_ranks(world, train, way, str(tmp_path / "many")))
    one, many = (tt.open(tmp_path / name) for name in ("one", "many"))
    names = one.names("parameter/*")
    for name in names:
        weight = dict(build("plain", 1).named_parameters())[name.removeprefix("parameter/")]
        digests = [run.placed_digest(name, 0).hex() for run in (one, many)]
        assert digests == [by_definition(weight.detach().numpy())] * 2
    text = tensortap("diff", "one", "many", "--only", "parameter/*", folder=tmp_path).stdout
    if way == "tp":  # statistics do not show it
        assert "14 parameters are equal in every bit, 1 is not, from step 1 on" in text
        assert "parameter/blocks.0.up.weight" in text
        with pytest.raises(KeyError, match='has no placed digest; record it with keep="placed"'):
            many.placed_digest("gradient/head.bias", 0)
    else:
        assert f"{len(names)} parameters are equal in every bit" in text
