"""DTensors in the front ends, and ranks that share a folder: each rank has its own part."""

from __future__ import annotations

import logging
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402

pytestmark = needs_sharding_on_cpu


def sharded() -> tuple[Any, Any]:
    """Return a model whose parameters are DTensors, after a backward, and its optimizer."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 3))
    fully_shard(model)
    model(torch.randn(2, 4)).sum().backward()
    return model, torch.optim.AdamW(model.parameters())


def measure(rank: int, world: int) -> tuple[dict[str, float], Any, Any, list[str]]:
    from tensortap.monitor import ModuleMonitor

    model, _ = sharded()
    said_of_it: list[str] = []
    logger = logging.Logger("monitored")
    logger.addFilter(lambda record: bool(said_of_it.append(record.getMessage())))
    monitor = ModuleMonitor(logger=logger)
    monitor.set_module(model)
    monitor.add_parameter_metric("norm")
    monitor.add_parameter_metric("own", lambda t: t.norm())
    monitor.add_gradient_metric("absmax")
    monitor.add_gradient_metric("own", lambda t: t.abs().max())
    monitor.begin_step(0)
    monitor.monitor_parameters()
    monitor.monitor_gradients()
    monitor.end_step()
    weight = model[0].weight
    metrics = monitor.get_all_metrics()[0]
    return metrics, weight.to_local().detach(), weight.grad.to_local(), said_of_it


def test_metrics_of_a_dtensor_are_those_of_the_ranks_part() -> None:
    for metrics, weight, gradient, warned in said(run_ranks(2, measure)):
        (warning,) = (one for one in warned if "sharded" in one)
        assert "parameter/0.weight is sharded: its metrics" in warning
        assert "are of this rank's part" in warning
        for name in ("norm", "own"):
            assert metrics[f"parameter/0.weight/{name}"] == pytest.approx(float(weight.norm()))
        for name in ("absmax", "own"):
            assert metrics[f"gradient/0.weight/{name}"] == float(gradient.abs().max())


def record(rank: int, world: int, folder: str) -> Any:
    model, _ = sharded()
    with tt.record(folder) as run:
        run.tensor("weight", model[0].weight, keep="stats,value")
    return model[0].weight.to_local().detach()


def test_run_tensor_records_the_ranks_part_of_a_dtensor(tmp_path: Path) -> None:
    parts = said(run_ranks(2, record, str(tmp_path / "run")))
    run = tt.open(tmp_path / "run")
    for rank, part in enumerate(parts):
        assert torch.equal(run.tensor("weight", 0, rank=rank), part)


def spy(rank: int, world: int, folder: str) -> Any:
    import torch.distributed as dist
    from torch.distributed._functional_collectives import all_reduce

    from tensortap.spy import DebugContext, TensorSaver, spy_save

    model, _ = sharded()
    with DebugContext(TensorSaver(folder)):
        under_way = all_reduce(torch.full((3,), rank + 1.0), "sum", dist.group.WORLD)
        assert type(under_way).__name__ == "AsyncCollectiveTensor"
        spy_save("sum", under_way)
        spy_save("weight", model[0].weight)
    return model[0].weight.to_local().detach()


def test_each_rank_saves_its_own_files_which_torch_loads(tmp_path: Path) -> None:
    parts = said(run_ranks(2, spy, str(tmp_path)))
    names = ("manual.sum", "manual.weight")
    files = [f"{name}.rank{rank}.call0.pt" for name in names for rank in range(2)]
    assert sorted(os.listdir(tmp_path)) == files
    for rank, part in enumerate(parts):
        total = torch.load(tmp_path / f"manual.sum.rank{rank}.call0.pt")
        assert type(total) is torch.Tensor
        assert total.tolist() == [3.0, 3.0, 3.0]
        assert torch.equal(torch.load(tmp_path / f"manual.weight.rank{rank}.call0.pt"), part)


def keep_steps(rank: int, world: int, folder: str) -> tuple[list[str], str]:
    model, optimizer = sharded()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tt.record(folder, model=model, black_box=2) as run:
            for _ in range(5):
                model(torch.randn(2, 4)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            dumped = run.dump()
    ours = [str(one.message) for one in caught if "tensortap" in str(one.message)]
    return ours, str(dumped)


def test_a_black_box_keeps_the_sharded_state_of_an_optimizer(tmp_path: Path) -> None:
    from safetensors import safe_open

    for ours, dumped in said(run_ranks(2, keep_steps, str(tmp_path / "run"))):
        assert ours == []
        with safe_open(dumped, "pt") as file:
            kept = [name for name in file.keys() if name.endswith("state/0/exp_avg")]  # noqa: SIM118
            assert kept
            assert file.get_tensor(kept[0]).shape == (3, 4)
