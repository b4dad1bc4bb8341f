"""Models whose parameters are sharded: names as users know them, and no reading of freed memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import finish

torch = pytest.importorskip("torch")

import tensortap as tt  # noqa: E402

PROGRAM = """
import os, warnings, torch, torch.distributed as dist, tensortap as tt
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import always_wrap_policy

class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 6)
    def forward(self, x):
        return self.b(self.a(x).relu())

def wrapped(model):
    warnings.simplefilter("ignore")
    return FullyShardedDataParallel(
        model, auto_wrap_policy=always_wrap_policy, device_id=torch.device("cpu"),
        use_orig_params=True)

def sharded(model):
    fully_shard(model.a)
    return fully_shard(model) or model

def train(model, run=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    if run is not None:
        run = tt.record(run, model=model, optimizer=optimizer)
    for _ in range(3):
        model(torch.randn(2, 6)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    if run is not None:
        run.close()
    return [getattr(p, "_local_tensor", p).detach().clone() for p in model.parameters()]

torch.set_num_threads(1)
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
models = []
for run in (None, "run"):
    torch.manual_seed(0)
    models.append(train(WRAP(Mine()), run))
print(all(map(torch.equal, *models)), flush=True)
os._exit(0)  # FSDP's own clean-up is not what is tested
"""


@pytest.mark.parametrize("wrap", ["wrapped", "sharded"])
def test_fsdp_is_watched_under_the_models_own_names_and_computes_the_same(
    tmp_path: Path, wrap: str
) -> None:
    said = finish(PROGRAM.replace("WRAP", wrap), tmp_path)
    assert (said.returncode, said.stdout.strip()) == (0, "True"), said.stderr
    run = tt.open(tmp_path / "run")
    parameters = ["a.weight", "a.bias", "b.weight", "b.bias"]
    expected = {"activation/a", "activation/b", "activation/(root)"}
    expected |= {f"{kind}/{name}" for kind in ("parameter", "gradient") for name in parameters}
    assert set(run.names("*/*")) == expected
    assert {len(run.stats(name)) for name in expected} == {3}
    shapes = {"a.weight": (8, 6), "a.bias": (8,), "b.weight": (6, 8), "b.bias": (6,)}
    for name, shape in shapes.items():
        assert run.stats(f"gradient/{name}")[0].shape == shape


@pytest.mark.parametrize("offset", [0, 1, 200])
def test_a_view_of_freed_memory_is_named_and_not_read(offset: int) -> None:
    base = torch.arange(1000.0)
    view = base[offset : offset + 400]
    base.untyped_storage().resize_(0)
    with pytest.raises(TypeError, match=r"^freed tensor: its storage was resized to 0"):
        tt.stats(view)


def test_a_parameter_that_is_freed_between_steps_is_passed_over(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 4, bias=False)
    whole = torch.arange(32.0)
    model.weight.data = whole[16:].view(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with tt.record(tmp_path / "run", model=model, optimizer=optimizer) as run:
        for step in range(4):
            if step == 2:
                kept = whole.clone()
                whole.untyped_storage().resize_(0)
            optimizer.step()
            run.step()
        whole.untyped_storage().resize_(32 * 4)
        whole.copy_(kept)
    assert len(tt.open(tmp_path / "run").stats("parameter/weight")) in (1, 2)
