"""Modules that return tensors which a collective is still filling: AsyncCollectiveTensor."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402

pytestmark = needs_sharding_on_cpu

DELAY = 1.0  # seconds that rank 1 is late


class Sum(nn.Module):
    """Return the sum over all ranks, while it is being computed."""

    def forward(self, x: Any) -> Any:
        import torch.distributed as dist
        from torch.distributed._functional_collectives import all_reduce

        return all_reduce(x, "sum", dist.group.WORLD)


class Net(nn.Module):
    def __init__(self, use: str) -> None:
        super().__init__()
        self.sum, self.next, self.use = Sum(), nn.Identity(), use

    def forward(self, x: Any) -> Any:
        import torch.distributed as dist

        if dist.get_rank() == 1:
            time.sleep(DELAY)
        begin = time.perf_counter()
        total = self.sum(x)
        self.next(x)  # events of other modules do not wait either
        self.early = time.perf_counter() - begin
        if self.use == "view":
            total = total.view(-1) + 0.0  # torch waits for the view alone
        elif self.use == "change":
            total.mul_(2.0)
        elif self.use == "use":
            total = total + 0.0
        self.next(x)
        return total


def watch(rank: int, world: int, use: str, folder: str) -> float:
    model = Net(use)
    with tt.record(folder, model=model):
        total = model(torch.full((2, 3), rank + 1.0))
        if use == "never":
            assert type(total).__name__ == "AsyncCollectiveTensor"
            assert not total.completed
    return model.early


@pytest.mark.parametrize("use", ["use", "view"])
def test_a_sum_is_recorded_when_the_program_has_waited_and_not_before(
    tmp_path: Path, use: str
) -> None:
    early = said(run_ranks(2, watch, use, str(tmp_path / "run")))
    assert early[0] < DELAY / 2
    run = tt.open(tmp_path / "run")
    for rank in range(2):
        (stats,) = run.stats("activation/sum", rank=rank)
        assert (stats.min, stats.max, stats.count) == (3.0, 3.0, 6)
    assert not run.notes


@pytest.mark.parametrize("use", ["change", "never"])
def test_a_sum_that_was_changed_or_never_waited_for_is_not_recorded_but_noted(
    tmp_path: Path, use: str
) -> None:
    early = said(run_ranks(2, watch, use, str(tmp_path / "run")))
    assert early[0] < DELAY / 2
    run = tt.open(tmp_path / "run")
    assert run.stats("activation/sum", rank=0) == []
    assert any("not waited for" in str(note) for note in run.notes)


def keep_memory(rank: int, world: int, folder: str) -> tuple[bool, bool]:
    import gc
    import weakref

    model = Net("use")
    with tt.record(folder, model=model):
        seen = []
        model.sum.register_forward_hook(lambda _, __, out: seen.append(weakref.ref(out.elem)))
        model(torch.ones(2, 3))
        gc.collect()
        return seen[0]() is None, gc.isenabled()


def test_the_memory_of_a_sum_is_given_back_at_the_next_event(tmp_path: Path) -> None:
    for is_gone, _ in said(run_ranks(2, keep_memory, str(tmp_path / "run"))):
        assert is_gone
