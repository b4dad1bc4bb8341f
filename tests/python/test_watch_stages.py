"""Several stages of a pipeline on a rank, and stages that are split: one model in a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402

pipelining = pytest.importorskip("torch.distributed.pipelining")
pytestmark = needs_sharding_on_cpu

LAYERS, STEPS, MICRO_BATCHES, WIDTH = 4, 6, 4, 8


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.up(self.norm(x)).relu())


class Net(nn.Module):
    """A model, or some layers of it, with the names that they have in the whole."""

    def __init__(self, layers: range) -> None:
        super().__init__()
        torch.manual_seed(0)
        whole = {str(i): Layer() for i in range(LAYERS)}
        self.layers = nn.ModuleDict({name: whole[name] for name in map(str, layers)})
        head = nn.Linear(WIDTH, 5)
        self.head = head if LAYERS - 1 in layers else None

    def forward(self, x: Any) -> Any:
        for layer in self.layers.values():
            x = layer(x)
        return x if self.head is None else self.head(x)


def batch(step: int) -> tuple[Any, Any]:
    x = torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(step))
    return x, (x.sum(-1) > 0).long()


def train_whole(folder: str) -> None:
    model = Net(range(LAYERS))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(folder, model=model):
        for step in range(STEPS):
            x, y = batch(step)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def split(model: Any, mesh: Any) -> None:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    for layer in model.layers.values():
        parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def train_stages(rank: int, world: int, folder: str, schedule: str) -> None:
    """Train on half as many pipeline ranks as the job has if there are four, each split in two."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("pp", "tp"))
    at, group = mesh["pp"].get_local_rank(), mesh["pp"].get_group()
    count = LAYERS if world == 2 else 2  # stages
    numbers = range(at, count, 2)
    size = LAYERS // count
    models = [Net(range(i * size, (i + 1) * size)) for i in numbers]
    if world == 4:
        for model in models:
            split(model, mesh["tp"])
    stages: list[Any] = [
        pipelining.PipelineStage(m, i, count, torch.device("cpu"), group=group)
        for i, m in zip(numbers, models, strict=True)
    ]
    kind = getattr(pipelining, schedule)
    is_single = len(stages) == 1
    loss = nn.functional.cross_entropy
    run_step = kind(stages[0] if is_single else stages, MICRO_BATCHES, loss_fn=loss)
    optimizer = torch.optim.SGD([p for m in models for p in m.parameters()], 0.1)
    with tt.record(folder, model=models[0]):
        for model in models[1:]:
            tt.watch(model)
        for step in range(STEPS):
            x, y = batch(step)
            optimizer.zero_grad()
            arguments = (x,) if at == 0 else ()
            run_step.step(*arguments, **({"target": y} if at == 1 else {}))
            optimizer.step()


@pytest.mark.parametrize(
    ("world", "schedule"), [(2, "ScheduleInterleaved1F1B"), (4, "Schedule1F1B")]
)
def test_stages_have_the_names_and_the_numbers_of_the_whole_model(
    tmp_path: Path, world: int, schedule: str
) -> None:
    said(run_ranks(world, train_stages, str(tmp_path / "stages"), schedule))
    train_whole(str(tmp_path / "whole"))
    stages, whole = tt.open(tmp_path / "stages"), tt.open(tmp_path / "whole")
    kinds = ("parameter/*", "gradient/*", "activation/layers.*", "activation/head")
    for kind in kinds:
        assert set(stages.names(kind)) == set(whole.names(kind))
    for name in whole.names("gradient/*"):
        ours, theirs = stages.series(name, "rms")[1], whole.series(name, "rms")[1]
        assert list(ours) == pytest.approx(list(theirs), rel=1e-4), name
    joined = stages.series("gradient_norm")[1]
    assert list(joined) == pytest.approx(list(whole.series("gradient_norm")[1]), rel=1e-4)
    found = tt.diff(tmp_path / "whole", tmp_path / "stages")
    assert [one.name for one in found.sites if one.verdict == "differs"] == []
    assert found.verdict == "noise"
    assert [str(one) for one in tt.health(stages)] == []


def test_models_that_share_a_name_keep_names_of_their_own(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for model in (Net(range(2)), Net(range(1, 3)), Net(range(3, 4))):
            tt.watch(model)
            model(torch.ones(1, WIDTH))
        run.step()
    names = tt.open(tmp_path / "run").names("activation/*.up")
    wanted = ["layers.0.up", "layers.1.up", "Net2:layers.1.up", "Net2:layers.2.up"]
    assert names[:4] == [f"activation/{name}" for name in wanted]
    assert names[4:] == ["activation/layers.3.up"]


def test_the_root_of_another_part_is_not_that_of_the_first(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run"):
        for layers in (range(2), range(2, 4)):
            model = Net(layers)
            tt.watch(model)
            model(torch.full((1, WIDTH), math.pi))
    roots = tt.open(tmp_path / "run").names("activation/*(root)")
    assert roots == ["activation/(root)", "activation/Net2:(root)"]
