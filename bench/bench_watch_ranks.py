"""Two ranks: is anything waited for that the program does not wait for, and what do places cost.

A layer returns a sum over both ranks while it is being computed; rank 1 is late, and rank 0 works
meanwhile.  If tensortap waited for the sum, the step would take as long as both together.
Watched and plain steps alternate; the time is that of the wall, on rank 0.
"""

import os
import tempfile
import time
from statistics import median
from typing import Any

import harness
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import tensortap as tt

LATE = 0.03  # seconds
TURNS = 20


class Sum(nn.Module):
    """Return the sum over all ranks, while it is being computed."""

    def forward(self, x: Any) -> Any:
        """Start the collective."""
        from torch.distributed._functional_collectives import all_reduce

        return all_reduce(x, "sum", dist.group.WORLD)


class Net(nn.Module):
    """Use the sum of a layer after something else has been computed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.sum, self.last = nn.Linear(64, 64), Sum(), nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        """Work while ranks communicate."""
        with torch.no_grad():
            if dist.get_rank() == 1:
                time.sleep(LATE)
            total = self.sum(self.first(x))
            if dist.get_rank() == 0:
                time.sleep(LATE)
        return self.last(total + 0.0)


def overlap(rank: int, folder: str) -> float:
    """Return the time of a watched step over that of a plain one."""
    model, x = Net(), torch.randn(32, 64)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    taken: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(TURNS):
        is_watched = turn % 2 == 1
        run = tt.record(f"{folder}/{turn}", model=model) if is_watched else None
        for _ in range(3):
            dist.barrier()
            start = time.perf_counter()
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            taken[is_watched].append(time.perf_counter() - start)
        if run is not None:
            run.close()
    return median(taken[True]) / median(taken[False])


def transformer() -> Any:
    """Return a sharded transformer, and a step of its training."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(0)
    layers = [
        nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)) for _ in range(8)
    ]
    model = nn.Sequential(*layers)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    plan = {f"{i}.0": ColwiseParallel() for i in range(8)}
    parallelize_module(model, mesh, plan | {f"{i}.2": RowwiseParallel() for i in range(8)})
    optimizer, x = torch.optim.SGD(model.parameters(), 1e-3), torch.randn(256, 256)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def record(model: Any, step: Any, path: str, steps: int, has_places: bool) -> tuple[float, int]:
    """Return what places take of the steps after the second, and the size of the file."""
    spent = 0.0
    with tt.record(path, model=model, grads="all", inputs=True) as run:
        inner = run.placer

        def timed(*arguments: Any) -> bool:
            nonlocal spent
            start = time.perf_counter()
            answer = bool(inner(*arguments))
            spent += time.perf_counter() - start
            return answer

        run.placer = timed if has_places else None
        for i in range(steps):
            if i == 2:
                spent, start = 0.0, time.perf_counter()
            step()
        share = spent / (time.perf_counter() - start) if steps > 2 else 0.0
    return share, os.path.getsize(f"{path}/rank{dist.get_rank()}.tap")


def cost(folder: str) -> tuple[float, float]:
    """Return what places take of a step, and of the file of 200 steps."""
    model, step = transformer()
    share, whole = record(model, step, f"{folder}/whole", 200, True)
    # Blocks end by the clock, so that sizes vary; those of two steps are in one block.
    sizes = [
        [record(model, step, f"{folder}/{turn}-{has}", 2, has)[1] for has in (True, False)]
        for turn in range(5)
    ]
    return share, median(more - less for more, less in sizes) / whole


def work(rank: int, folder: str) -> None:
    """Run one rank."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", rank=rank, world_size=2, store=store)
    ratio = overlap(rank, folder)
    of_step, of_file = cost(folder)
    if rank == 0:
        harness.row("a step with a late sum: watched over plain", ratio, 1.03, at_most=True)
        harness.row("places, of a tensor-parallel step", of_step, 0.002, at_most=True)
        harness.row("... of the file of 200 steps", of_file, 0.01, at_most=True)
    dist.barrier()
    os._exit(0)  # gloo's threads may end late


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        mp.spawn(work, (place,), nprocs=2)
