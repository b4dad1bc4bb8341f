"""Models whose parameters are sharded: names as users know them, and no reading of freed memory."""

from __future__ import annotations

import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from programs import forked

torch = pytest.importorskip("torch")

from ranks import run_ranks as run_functions  # noqa: E402
from ranks import said as said_by  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402

WAYS = ["wrapped", pytest.param("sharded", marks=needs_sharding_on_cpu)]

PROGRAM = """
import os, sys, warnings, torch, torch.distributed as dist, tensortap as tt
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

def local(t):
    return None if t is None else getattr(t, "_local_tensor", t).detach().clone()

def train(model, run=None):
    # What each step had: the output, and the shards of parameters and gradients.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    run = run and tt.record(run, model=model, optimizer=optimizer)
    kept = []
    for _ in range(3):
        out = model(torch.randn(2, 6))
        out.sum().backward()
        named = [(n.replace("_fsdp_wrapped_module.", ""), p) for n, p in model.named_parameters()]
        kept.append({"activation/(root)": local(out)})
        kept[-1].update({f"parameter/{name}": local(p) for name, p in named})
        kept[-1].update({f"gradient/{name}": local(p.grad) for name, p in named})
        optimizer.step()
        optimizer.zero_grad()
    if run:
        run.close()
    return kept

rank, world = map(int, sys.argv[1:])
torch.set_num_threads(1)
store = dist.FileStore("store", world)
dist.init_process_group("gloo", rank=rank, world_size=world, store=store)
plain, watched = [], []
for kept, run in ((plain, None), (watched, "run")):
    torch.manual_seed(0)
    kept.extend(train(WRAP(Mine()), run))

def is_same(a, b):
    return a is b if a is None or b is None else torch.equal(a, b)

print(all(one.keys() == two.keys() and all(is_same(one[k], two[k]) for k in one)
          for one, two in zip(plain, watched)), flush=True)
torch.save(plain, f"kept{rank}.pt")
dist.barrier()
os._exit(0)  # FSDP's own clean-up is not what is tested
"""

PARAMETERS = {"a.weight": (8, 6), "a.bias": (8,), "b.weight": (6, 8), "b.bias": (6,)}
NAMES = {"activation/a", "activation/b", "activation/(root)"}
NAMES |= {f"{kind}/{name}" for kind in ("parameter", "gradient") for name in PARAMETERS}


def run_ranks(folder: Path, wrap: str, world: int) -> None:
    """Train in so many processes; each says that watching changed nothing."""
    code = PROGRAM.replace("WRAP", wrap)
    for turn in range(3):  # a rank may end in an abort of torch's own: judged by what it said
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with ThreadPoolExecutor(world) as threads:
            ranks = [threads.submit(forked, code, folder, str(i), str(world)) for i in range(world)]
        said = [rank.result() for rank in ranks]
        if [one.stdout.strip() for one in said] == ["True"] * world:
            return
        assert turn < 2, said


@pytest.mark.parametrize("wrap", WAYS)
def test_fsdp_is_watched_under_the_models_own_names_and_computes_the_same(
    tmp_path: Path, wrap: str
) -> None:
    run_ranks(tmp_path, wrap, 1)
    run = tt.open(tmp_path / "run")
    assert {name for name in run.names("*/*") if not name.startswith("loss/")} == NAMES
    assert {len(run.stats(name)) for name in NAMES} == {3}
    for name, shape in PARAMETERS.items():
        assert run.stats(f"gradient/{name}")[0].shape == shape


@pytest.mark.heavy
@pytest.mark.parametrize("wrap", WAYS)
def test_two_ranks_record_each_its_own_shards(tmp_path: Path, wrap: str) -> None:
    run_ranks(tmp_path, wrap, 2)
    run = tt.open(tmp_path / "run")
    assert run.ranks == [0, 1]
    assert {name for name in run.names("*/*") if not name.startswith("loss/")} == NAMES
    seen = 0
    for rank in run.ranks:
        kept = torch.load(tmp_path / f"kept{rank}.pt")
        for name in kept[0]:
            there = [(step, row[name]) for step, row in enumerate(kept) if row[name] is not None]
            steps, sums = run.series(name, "sum", rank=rank)
            assert steps.tolist() == [step for step, _ in there], name
            assert sums.tolist() == pytest.approx([float(t.double().sum()) for _, t in there])
            counts = run.series(name, "count", rank=rank)[1]
            assert counts.tolist() == [t.numel() for _, t in there]
            seen += int(counts.sum())
    whole = sum(math.prod(shape) for shape in PARAMETERS.values())
    assert seen >= 3 * 2 * whole  # every element of every parameter and gradient, at three steps


@pytest.mark.parametrize("offset", [0, 1, 200])
def test_a_view_of_freed_memory_is_named_and_not_read(offset: int) -> None:
    base = torch.arange(1000.0)
    view = base[offset : offset + 400]
    base.untyped_storage().resize_(0)
    with pytest.raises(TypeError, match=r"^freed tensor: its storage was resized to fewer bytes"):
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


# ---- what is said of parts


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(torch.nn.Module):
    """Five classes: the last rank of four has no row of the head, and two classes never occur."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.block, self.head = torch.nn.Linear(8, 16), Block(), torch.nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.embed(x)))


def spread(model: Net, way: str, world: int) -> None:
    """Spread the parameters over the ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    names = {"fsdp": ("dp",), "hsdp": ("copies", "dp"), "fsdp x tp": ("dp", "tp"), "sp": ("tp",)}
    shape = (2, world // 2) if len(names[way]) == 2 else (world,)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names[way])
    if way == "fsdp x tp":
        parts = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(model.block, mesh["tp"], parts)
    if way == "sp":
        parts = {
            "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "block.norm": SequenceParallel(),
            "block.up": ColwiseParallel(input_layouts=Shard(1)),
            "block.down": RowwiseParallel(output_layouts=Shard(1)),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        }
        parallelize_module(model, mesh, parts)
        return
    mesh = mesh["dp"] if way == "fsdp x tp" else mesh
    fully_shard(model.block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def train_spread(
    rank: int, world: int, folder: str, way: str, first_clipped: int | None, steps: int
) -> list[float]:
    """Train; return the norms that clip_grad_norm_ returned."""
    torch.manual_seed(0)
    model, norms = Net(), []
    spread(model, way, world)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    torch.manual_seed(1 + (0 if way == "sp" else rank // (world // 2) if way[-1] == "p" else rank))
    with tt.record(folder, model=model):
        for step in range(steps):
            x = torch.randn(4, 6, 8)
            loss = torch.nn.functional.cross_entropy(
                model(x).flatten(0, 1) * 10, (x.sum(-1) > 0).long().flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            if first_clipped is not None and step >= first_clipped:
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
                norms.append(float(norm.full_tensor()))
            optimizer.step()
    return norms


@needs_sharding_on_cpu
@pytest.mark.parametrize(
    ("way", "world"), [("fsdp", 2), ("fsdp", 4), ("hsdp", 4), ("fsdp x tp", 4), ("sp", 2)]
)
def test_a_healthy_model_that_is_spread_over_ranks_is_healthy(
    tmp_path: Path, way: str, world: int
) -> None:
    said_by(run_functions(world, train_spread, str(tmp_path / "run"), way, None, 40))
    findings = tt.health(tmp_path / "run")
    assert [str(one) for one in findings] == []


@needs_sharding_on_cpu
@pytest.mark.parametrize(("way", "world"), [("fsdp", 2), ("hsdp", 4)])
def test_gradients_of_parts_are_those_before_clipping(tmp_path: Path, way: str, world: int) -> None:
    norms = said_by(run_functions(world, train_spread, str(tmp_path / "run"), way, 0, 6))[0]
    run = tt.open(tmp_path / "run")
    assert run.names("gradient_norm*") == ["gradient_norm"]
    parts = [run.series("gradient_norm", rank=rank)[1] for rank in range(2)]
    for ours, theirs in zip(zip(*parts, strict=True), norms, strict=True):
        assert math.hypot(*ours) == pytest.approx(theirs, rel=1e-5)


@needs_sharding_on_cpu
@pytest.mark.parametrize("way", ["fsdp", "sp"])
def test_the_norm_of_parts_that_were_clipped_unexpectedly_says_so(tmp_path: Path, way: str) -> None:
    said_by(run_functions(2, train_spread, str(tmp_path / "run"), way, 3, 6))
    run = tt.open(tmp_path / "run")
    for rank in range(2):
        assert run.series("gradient_norm", rank=rank)[0].tolist() == [0, 1, 2, 4, 5]
        assert run.series("gradient_norm (clipped)", rank=rank)[0].tolist() == [3]
        assert min(run.series("gradient_norm", rank=rank)[1]) > 0.01
