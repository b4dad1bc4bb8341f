"""Metrics by name of sharded tensors: the run that is open has those of the whole tensors."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402

pytestmark = needs_sharding_on_cpu

STEPS = (3, 5)


def build(world: int) -> Any:
    """Return a model that is sharded over all ranks; with four, the first layer by tensors too."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Linear(10, 3))
    if world == 2:
        fully_shard(model)
        return model
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("dp", "tp"))
    whole = torch.distributed.tensor.Replicate()
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(output_layouts=whole)})
    fully_shard(model, mesh=mesh["dp"])
    return model


def monitored(rank: int, world: int, folder: str, watches: bool) -> Any:
    """Monitor two steps; return what torch says of the whole tensors, and what was said."""
    from tensortap.monitor import ModuleMonitor

    model = build(world)
    messages: list[str] = []
    logger = logging.Logger("monitored")
    logger.addFilter(lambda one: bool(messages.append(one.getMessage())))
    monitor = ModuleMonitor(lambda step: True, logger=logger)
    monitor.set_module(model)
    monitor.add_parameter_metric("norm")
    monitor.add_gradient_metric("norm")
    monitor.add_gradient_metric("absmax")
    monitor.add_gradient_metric("own", lambda t: 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found: dict[str, list[tuple[float, float]]] = {}
    with tt.record(folder, model=model if watches else None):
        for step in STEPS:
            torch.manual_seed(10 * step + rank)
            monitor.begin_step(step)
            model(torch.randn(4, 6)).square().sum().backward()
            monitor.monitor_parameters()
            monitor.monitor_gradients()
            for name, parameter in model.named_parameters():
                for kind, one in (("parameter", parameter), ("gradient", parameter.grad)):
                    whole = one.full_tensor().detach()
                    numbers = float(whole.double().norm()), float(whole.abs().max())
                    found.setdefault(f"{kind}/{name}", []).append(numbers)
            optimizer.step()
            optimizer.zero_grad()
            monitor.end_step()
    return found, messages, monitor.get_all_metrics()[STEPS[0]]


@pytest.mark.parametrize("world", [2, 4])
def test_the_run_has_the_metrics_of_whole_tensors(tmp_path: Path, world: int) -> None:
    answers = said(run_ranks(world, monitored, str(tmp_path / "run"), False))
    run = tt.open(tmp_path / "run")
    expected = answers[0][0]
    assert len(expected) == 8
    for site, numbers in expected.items():
        steps, norms = run.series(site, "l2")
        assert steps.tolist() == list(STEPS)
        assert norms == pytest.approx([norm for norm, _ in numbers], rel=1e-6)
        assert run.series(site, "absmax")[1].tolist() == [absmax for _, absmax in numbers]
        joined = run.joined(site)
        assert joined is not None
        assert joined.incomplete == joined.unplaced == joined.unequal == 0
    assert not run.names("*/norm")  # a part is not shown as the whole
    assert run.series("gradient/0.weight/own")[0].tolist() == list(STEPS)
    for _, messages, metrics in answers:
        (message,) = (one for one in messages if "sharded" in one)
        assert "of this rank's part" in message
        assert "series('parameter/0.weight', 'l2')" in message
        assert metrics["gradient/0.weight/norm"] < expected["gradient/0.weight"][0][0]


def test_a_run_that_watches_the_model_has_each_point_once(tmp_path: Path) -> None:
    answers = said(run_ranks(2, monitored, str(tmp_path / "run"), True))
    run = tt.open(tmp_path / "run")
    norms = [norm for norm, _ in answers[0][0]["gradient/0.weight"]]
    assert run.series("gradient/0.weight", "l2")[1] == pytest.approx(norms, rel=1e-6)
    assert not run.names("*/norm")
