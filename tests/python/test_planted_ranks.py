"""Faults of split trainings, planted one by one: diff names the layer that was wrong first.

Each is what users get wrong when they write such a training; its healthy twin differs from one
process by rounding only.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from ranks import run_ranks, said  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402

pytestmark = needs_sharding_on_cpu

STEPS, BATCH, LENGTH = 4, 4, 6


class Reduce(torch.autograd.Function):
    """Add up what all ranks have; each has the gradient already."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


class RowLinear(nn.Module):
    """A linear layer of which each rank has some of the inputs, as users write it."""

    def __init__(self, whole: nn.Linear, mesh: Any, fault: str) -> None:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        super().__init__()
        weight = whole.weight.detach()
        if fault == "swapped shards":
            weight = torch.cat(weight.chunk(2, 1)[::-1], 1)
        self.weight = nn.Parameter(distribute_tensor(weight, mesh, [Shard(1)]))
        self.bias = nn.Parameter(distribute_tensor(whole.bias.detach(), mesh, [Replicate()]))
        self.mesh, self.fault = mesh, fault

    def forward(self, x: Any) -> Any:
        from torch.distributed.tensor import DTensor, Replicate

        bias = self.bias.to_local()
        is_early = self.fault == "bias on every rank"
        y = nn.functional.linear(x, self.weight.to_local(), bias if is_early else None)
        if self.fault != "no all-reduce":
            y = Reduce.apply(y)
        if self.fault == "wrong scale":
            y = y / self.mesh.size()
        y = y if is_early else y + bias
        return DTensor.from_local(y, self.mesh, [Replicate()], run_check=False).to_local()


class Dropout(nn.Module):
    """Dropout whose masks belong to the samples: they do not depend on who has which."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.step = 0, 0

    def forward(self, x: Any) -> Any:
        masks = []
        for sample in range(x.shape[0]):
            seed = 1000 * self.step + self.first + sample
            generator = torch.Generator().manual_seed(seed)
            masks.append(torch.rand(x.shape[1:], generator=generator) < 0.8)
        return x * torch.stack(masks) / 0.8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up, self.down, self.drop = nn.Linear(8, 12), nn.Linear(12, 8), Dropout()

    def forward(self, x: Any) -> Any:
        return x + self.drop(self.down(self.up(self.norm(x)).relu()))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(10, 8), nn.Embedding(LENGTH + 1, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 6)
        self.shift = 0

    def forward(self, x: Any) -> Any:
        x = self.tokens(x) + self.places(torch.arange(LENGTH) + self.shift)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def split(net: Any, way: str, world: int, fault: str) -> Any:
    """Return the model as the ranks train it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    if way.startswith("one"):
        return net
    if way == "ddp":
        if fault == "layer not synchronised":
            net._ddp_params_and_buffers_to_ignore = ["blocks.1.up.weight", "blocks.1.up.bias"]
        return nn.parallel.DistributedDataParallel(net)
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=(way,))
    if way == "fsdp":
        for block in net.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(net, mesh=mesh)
    for block in net.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel()})
    for number, block in enumerate(net.blocks):
        block.down = RowLinear(block.down, mesh, fault if number == 1 else "")
    return net


def loss_of(out: Any, tokens: Any, all_tokens: Any, world: int, fault: str) -> Any:
    """Return the mean over those tokens of the whole batch that are not padding."""
    targets = torch.where(tokens == 0, -100, tokens % 6)
    total = nn.functional.cross_entropy(out.flatten(0, 1), targets.flatten(), reduction="sum")
    if fault == "wrong loss averaging":
        return total / (tokens != 0).sum()
    return total / (all_tokens != 0).sum() * world


def clip(parameters: Any, limit: float, is_local: bool) -> None:
    """Scale the gradients of a sharded model as clip_grad_norm_ does."""
    norms = [
        (one.grad.to_local() if is_local else one.grad.full_tensor()).norm() for one in parameters
    ]
    scale = min(1.0, limit / float(torch.stack(norms).norm()))
    for one in parameters:
        one.grad.mul_(scale)


def train(rank: int, world: int, way: str, fault: str, folder: str) -> None:
    """Train on the same samples, however they are split."""
    torch.manual_seed(0)
    net = Net()
    model = split(net, way, world, fault)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    batches = torch.Generator().manual_seed(1)
    ranks, part = (world, rank) if way in ("ddp", "fsdp") else (1, 0)
    up = net.blocks[1].up
    with tt.record(folder, model=model):
        for step in range(STEPS):
            whole = torch.randint(0, 10, (BATCH, LENGTH), generator=batches)
            whole[:2, 4:] = 0  # padding: ranks have other numbers of tokens
            tokens = whole.chunk(ranks)[0 if fault == "batch given twice" else part]
            for block in net.blocks:
                is_wrong = fault == "equal seeds" and block is net.blocks[1]
                block.drop.step = step
                block.drop.first = 0 if is_wrong else part * BATCH // ranks
            net.shift = int(fault == "positions off by one" and rank == 1)
            loss_of(model(tokens), tokens, whole, ranks, fault).backward()
            if way == "fsdp":
                clip(parameters, 0.5, is_local=fault == "clipped by local norm")
            elif way == "one clipped":
                nn.utils.clip_grad_norm_(parameters, 0.5)
            kept = up.weight.detach().clone()
            with torch.no_grad():
                if fault == "divided twice":
                    up.weight.grad.div_(world)
                optimizer.step()
                if fault == "stale replica" and rank == 1 and step == 1:
                    up.weight.copy_(kept)
            optimizer.zero_grad()


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of one process: the one that each way of splitting is compared with."""
    made = {}
    for way in ("one", "one clipped"):
        made[way] = tmp_path_factory.mktemp("healthy") / way.replace(" ", "-")
        train(0, 1, way, "", str(made[way]))
    return {"ddp": made["one"], "tp": made["one"], "fsdp": made["one clipped"]}


@pytest.mark.parametrize(("way", "world"), [("ddp", 2), ("fsdp", 2), ("tp", 2), ("ddp", 4)])
def test_the_healthy_twins_differ_by_rounding(
    healthy: dict[str, Path], tmp_path: Path, way: str, world: int
) -> None:
    said(run_ranks(world, train, way, "", str(tmp_path / "many")))
    found = tt.diff(healthy[way], tmp_path / "many")
    assert not [(one.name, one.field) for one in found.sites if one.verdict == "differs"]
    assert {one.kind for one in found.premises} <= {"settings", "code"}  # RowLinear is ours


heavy = partial(pytest.param, marks=pytest.mark.heavy)


@pytest.mark.parametrize(
    ("way", "world", "fault", "names", "step"),
    [
        ("tp", 2, "no all-reduce", ["activation/blocks.1.down"], 0),
        ("tp", 2, "bias on every rank", ["activation/blocks.1.down"], 0),
        ("tp", 2, "wrong scale", ["activation/blocks.1.down"], 0),
        ("tp", 2, "swapped shards", ["activation/blocks.1.down"], 0),
        ("ddp", 2, "stale replica", ["activation/blocks.1.up", "parameter/blocks.1.up.weight"], 2),
        ("ddp", 2, "positions off by one", ["activation/places"], 0),
        ("ddp", 2, "equal seeds", ["activation/blocks.1.drop"], 0),
        ("ddp", 2, "divided twice", ["parameter/blocks.1.up.weight"], 1),
        ("fsdp", 2, "clipped by local norm", ["parameter/tokens.weight"], 1),
        ("ddp", 2, "layer not synchronised", ["activation/blocks.1.up"], 1),
        ("ddp", 2, "batch given twice", ["activation/tokens"], 0),
        ("ddp", 2, "wrong loss averaging", ["loss/"], 0),
        heavy("ddp", 4, "stale replica", ["activation/blocks.1.up"], 2),
        heavy("fsdp", 4, "batch given twice", ["activation/tokens"], 0),
    ],
)
def test_the_layer_that_was_wrong_first_is_named(
    healthy: dict[str, Path],
    tmp_path: Path,
    way: str,
    world: int,
    fault: str,
    names: list[str],
    step: int,
) -> None:
    said(run_ranks(world, train, way, fault, str(tmp_path / "many")))
    first: Any = tt.diff(healthy[way], tmp_path / "many").first
    assert first is not None
    assert first.first_step == step, first
    assert first.name.startswith(tuple(names)), first
