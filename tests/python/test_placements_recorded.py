"""Placements in runs of real ranks: each file says where its tensors belong."""

from __future__ import annotations

import math
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap import _core  # noqa: E402
from tensortap.models.placement import Kind, Source  # noqa: E402

pytestmark = needs_sharding_on_cpu

STEPS = 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 12), nn.Linear(12, 8)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Any) -> Any:
        return x + self.drop(self.down(self.up(self.norm(x)).relu()))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 6)

    def forward(self, x: Any) -> Any:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def parallelize(model: Any, mesh: Any) -> None:
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan: dict[str, Any] = {
        "embed": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    for i in range(2):
        plan |= {f"blocks.{i}.up": ColwiseParallel(), f"blocks.{i}.down": RowwiseParallel()}
    parallelize_module(model, mesh, plan)


def split_sequences(model: Any, mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    plan: dict[str, Any] = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    for i in range(2):
        plan |= {
            f"blocks.{i}.norm": SequenceParallel(),
            f"blocks.{i}.up": ColwiseParallel(input_layouts=Shard(1)),
            f"blocks.{i}.down": RowwiseParallel(output_layouts=Shard(1)),
        }
    parallelize_module(model, mesh, plan)


def build(way: str, world: int, dtype: Any = None) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = Net().to(dtype)
    options: dict[str, Any] = {}
    if way == "ddp":
        return DistributedDataParallel(model)
    if way == "offload":
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
    if way in ("fsdp", "offload"):
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("dp",))
    elif way == "hsdp":
        mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
    elif way == "tp":
        parallelize(model, init_device_mesh("cpu", (world,), mesh_dim_names=("tp",)))
        return model
    elif way == "sp":
        split_sequences(model, init_device_mesh("cpu", (world,), mesh_dim_names=("tp",)))
        return model
    elif way == "fsdp tp":
        both = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
        parallelize(model, both["tp"])
        mesh = both["dp"]
    else:
        return model
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def train(rank: int, world: int, way: str, folder: str | None) -> tuple[list[str], list[Any]]:
    from torch.distributed.tensor.debug import CommDebugMode

    model = build(way, world)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 if way in ("tp", "sp") else 1 + rank // 2 if way == "fsdp tp" else 1 + rank)
    run = tt.record(folder, model=model, grads="all", inputs=True) if folder else None
    losses, counts = [], {}
    for step in range(STEPS):
        with CommDebugMode() if step else nullcontext() as comm:
            tokens = torch.randint(0, 10, (2, 6))
            out = model(tokens)
            loss = nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten() % 6)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item().hex())
        if comm is not None:
            counts = {str(one): n for one, n in comm.get_comm_counts().items()}
    if run is not None:
        run.close()
    return losses, sorted(counts.items())


class Files:
    """What the files of a run say."""

    def __init__(self, folder: Path) -> None:
        self.reader = _core.RunReader(str(folder))
        self.run = tt.open(folder)

    def place(self, rank: int, name: str, step: int = 0) -> Any:
        return self.reader.placement(rank, self.reader.find(name), step)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made: dict[str, Any] = {}

    def make(way: str, world: int) -> Any:
        if (way, world) not in made:
            folder = tmp_path_factory.mktemp("runs") / way.replace(" ", "-")
            watched = said(run_ranks(world, train, way, str(folder)))
            made[way, world] = folder, watched, said(run_ranks(world, train, way, None))
        return made[way, world]

    return make


WAYS = [("ddp", 2), ("fsdp", 2), ("hsdp", 4), ("tp", 2), ("sp", 2), ("fsdp tp", 4)]


@pytest.mark.parametrize(("way", "world"), WAYS)
def test_losses_and_collectives_are_those_without(runs: Any, way: str, world: int) -> None:
    _, watched, alone = runs(way, world)
    assert watched == alone


@pytest.mark.parametrize(("way", "world"), WAYS)
def test_all_sites_of_the_plain_model_are_there(
    runs: Any, tmp_path: Path, way: str, world: int
) -> None:
    train_plain(tmp_path / "plain")
    expected = {one for one in tt.open(tmp_path / "plain").names("*") if is_of_model(one)}
    run = tt.open(runs(way, world)[0])
    assert {one for one in run.names("*") if is_of_model(one)} == expected
    for name in expected:
        for rank in range(world):
            assert len(run.stats(name, rank=rank)) == STEPS, (name, rank)
    assert not [note for note in run.notes if "could not be read" in str(note)]


def is_of_model(name: str) -> bool:
    kinds = ("activation/", "parameter/", "gradient/", "activation_gradient/", "input/")
    return name.startswith(kinds)


def train_plain(folder: Path) -> None:
    model = build("plain", 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    with tt.record(folder, model=model, grads="all", inputs=True):
        for _ in range(STEPS):
            tokens = torch.randint(0, 10, (2, 6))
            out = model(tokens)
            nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten() % 6).backward()
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize(("way", "world"), [("fsdp", 2), ("hsdp", 4), ("tp", 2), ("fsdp tp", 4)])
@pytest.mark.parametrize("kind", ["parameter", "gradient"])
def test_counts_of_all_shards_add_up_to_the_tensor(
    runs: Any, way: str, world: int, kind: str
) -> None:
    files = Files(runs(way, world)[0])
    shapes = {name: tuple(one.shape) for name, one in Net().named_parameters()}
    for name, shape in shapes.items():
        if "norm" in name and "tp" in way:
            continue  # a plain parameter: nobody says what the ranks of tp have of it
        seen = torch.zeros(shape)
        for rank in range(world):
            _, mesh, _, spreads, whole, boxes = files.place(rank, f"{kind}/{name}")
            assert whole == shape
            replicas = math.prod(
                size
                for size, spread in zip(mesh[1], spreads, strict=True)
                if spread[0] == Kind.REPLICA
            )
            for offset, size in boxes:
                cut = tuple(slice(a, a + n) for a, n in zip(offset, size, strict=True))
                seen[cut] += 1 / replicas
        assert torch.equal(seen, torch.ones(shape)), name


def test_ddp_has_replicas_of_parameters_and_parts_of_the_batch(runs: Any) -> None:
    files = Files(runs("ddp", 2)[0])
    for name in ("parameter/head.weight", "gradient/head.weight"):
        _, mesh, source, spreads, shape, _ = files.place(1, name)
        assert (spreads[0][0], shape, mesh[3]) == (Kind.REPLICA, (6, 8), [0, 1])
        assert source == Source.WRAPPER
    loss = next(one for one in files.run.names("*") if one.startswith("loss/"))
    for name in ("activation/head", "input/head", "activation_gradient/head", loss):
        _, mesh, _, spreads, shape, _ = files.place(1, name)
        assert (spreads[0][0], shape, mesh[2]) == (Kind.BATCH, None, [1]), name


@pytest.mark.parametrize(("way", "world"), [("fsdp", 2), ("hsdp", 4)])
def test_activations_of_fsdp_are_of_a_part_of_the_batch(runs: Any, way: str, world: int) -> None:
    files = Files(runs(way, world)[0])
    _, mesh, _, spreads, _, _ = files.place(1, "activation/blocks.0.up")
    assert {one[0] for one in spreads} == {Kind.BATCH}
    assert math.prod(mesh[1]) == world


def test_outputs_of_parallel_layers_have_the_layouts_of_their_hooks(runs: Any) -> None:
    files = Files(runs("tp", 2)[0])
    up = files.place(1, "activation/blocks.0.up")
    assert (up[2], up[3][0][:2], up[4]) == (Source.HOOK, (Kind.SHARD, 2), (2, 6, 12))
    assert up[5] == [((0, 0, 6), (2, 6, 6))]
    assert files.place(1, "activation_gradient/blocks.0.up")[3:] == up[3:]
    assert files.place(1, "activation/blocks.0.down")[3][0][0] == Kind.REPLICA
    assert files.place(1, "activation/blocks.0.norm")[3][0][0] == Kind.UNKNOWN
    assert files.place(1, "parameter/blocks.0.norm.weight")[3][0][0] == Kind.UNKNOWN
    assert files.place(1, "input/blocks.0.down")[3][0][:2] == (Kind.SHARD, 2)


def test_tensor_parallel_outputs_under_fsdp_are_sharded_parts_of_the_batch(runs: Any) -> None:
    files = Files(runs("fsdp tp", 4)[0])
    for rank in range(4):
        _, mesh, _, spreads, shape, boxes = files.place(rank, "activation/blocks.1.up")
        assert mesh[:2] == (["dp", "tp"], [2, 2])
        assert mesh[2:] == ([rank // 2, rank % 2], [0, 1, 2, 3])
        assert [one[0] for one in spreads] == [Kind.BATCH, Kind.SHARD]
        assert (shape, boxes) == ((2, 6, 12), [((0, 0, 6 * (rank % 2)), (2, 6, 6))])


def test_a_place_is_written_once_unless_it_changes(runs: Any) -> None:
    folder = runs("fsdp", 2)[0]
    files = Files(folder)
    first = files.place(0, "parameter/head.weight")
    assert first == files.place(0, "parameter/head.weight", STEPS - 1)
    assert first[0] == 0


def offload(rank: int, world: int, folder: str) -> list[bool]:
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    fully_shard(model, offload_policy=CPUOffloadPolicy(pin_memory=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.record(folder, model=model):
        for _ in range(2):
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [bool(one._post_accumulate_grad_hooks) for one in model.parameters()]


def test_gradients_that_fsdp_offloads_have_no_hooks_and_are_read_before_the_step(
    tmp_path: Path,
) -> None:
    for hooked in said(run_ranks(2, offload, str(tmp_path / "run"))):
        assert hooked == [True, False, False, False]  # the first one finds the loss
    run = tt.open(tmp_path / "run")
    assert len(run.stats("gradient/1.weight", rank=1)) == 2
    assert any("offloads gradients" in str(note) for note in run.notes)


def test_what_others_keep_elsewhere_is_said(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    model[0].weight.main_grad = torch.zeros(6, 4)
    model[1].bias.data = torch.empty(0)
    model[1].bias.ds_id = 3
    model[1].bias.requires_grad = False
    optimizer = torch.optim.SGD([model[0].bias], lr=0.1)
    with tt.record(tmp_path / "run", model=model):
        model[0].bias.grad = torch.ones(6)
        optimizer.step()
    notes = " ".join(map(str, tt.open(tmp_path / "run").notes))
    assert "main_grad" in notes
    assert "ZeRO-3" in notes


def test_a_run_knows_how_its_rank_was_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = {
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "GROUP_RANK": "2",
        "TORCHELASTIC_RUN_ID": "job-7",
        "TORCHELASTIC_RESTART_COUNT": "3",
    }
    for name, text in launched.items():
        monkeypatch.setenv(name, text)
    with tt.record(tmp_path / "run") as run:
        run.log("x", 1.0)
    info = tt.open(tmp_path / "run").info
    wanted = ("rank", "world_size", "local_rank", "node", "elastic_run", "restart")
    assert [info[key] for key in wanted] == [5, 8, 1, 2, "job-7", 3]


def test_outputs_that_collectives_fill_are_those_of_the_plain_model(
    runs: Any, tmp_path: Path
) -> None:
    train_plain(tmp_path / "plain")
    plain, run = tt.open(tmp_path / "plain"), tt.open(runs("tp", 2)[0])
    names = [f"activation/blocks.{i}{part}" for i in (0, 1) for part in (".down", ".drop", "")]
    for name in [*names, "activation/embed", "activation/(root)"]:
        for rank in range(2):
            one, other = plain.stats(name)[0], run.stats(name, rank=rank)[0]
            assert one.count == other.count
            assert one.mean == pytest.approx(other.mean, rel=1e-4, abs=1e-6), name
            assert one.std == pytest.approx(other.std, rel=1e-4), name


def test_gradients_of_norms_under_sequence_parallelism_are_partial_sums(runs: Any) -> None:
    files = Files(runs("sp", 2)[0])
    _, _, source, spreads, shape, boxes = files.place(1, "gradient/blocks.0.norm.weight")
    assert (source, spreads[0][0], spreads[0][3]) == (Source.DTENSOR, Kind.PARTIAL, 0)
    assert (shape, boxes) == ((8,), [])
    assert files.place(1, "parameter/blocks.0.norm.weight")[3][0][0] == Kind.REPLICA
    _, _, _, spreads, shape, boxes = files.place(1, "activation/blocks.0.norm")
    assert (spreads[0][:2], shape) == ((Kind.SHARD, 1), (2, 6, 8))
    assert boxes == [((0, 3, 0), (2, 3, 8))]


def record_own(rank: int, world: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("mine",))
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    with tt.record(folder) as run:
        run.tensor("early", DTensor.from_local(torch.ones(2, 3), mesh, [Shard(0)]))
        tt.watch(model)
        run.tensor("plain", torch.ones(3))
        for rows in range(1, 41):
            run.tensor("grows", DTensor.from_local(torch.ones(rows, 3), mesh, [Shard(0)]))
            run.step()


def test_what_the_program_records_itself_is_placed_only_if_the_tensor_says_where(
    tmp_path: Path,
) -> None:
    said(run_ranks(2, record_own, str(tmp_path / "run")))
    files = Files(tmp_path / "run")
    assert files.place(1, "early")[3:] == ([(1, 0, 1, 0)], (4, 3), [((2, 0), (2, 3))])
    assert files.place(1, "plain") is None
    for step in range(32):
        assert files.place(1, "grows", step)[4] == (2 * step + 2, 3)
    for step in range(32, 40):  # each batch has its own shape: no more are written
        assert files.place(1, "grows", step)[::4] == (32, None)


@pytest.mark.parametrize(("way", "world"), WAYS)
def test_joined_parameters_are_those_of_the_plain_model(
    runs: Any, tmp_path: Path, way: str, world: int
) -> None:
    train_plain(tmp_path / "plain")
    plain, run = tt.open(tmp_path / "plain"), tt.open(runs(way, world)[0])
    for name in plain.names("parameter/*"):
        one, whole = plain.stats(name)[0], run.stats(name)[0]
        assert (one.count, one.min, one.max) == (whole.count, whole.min, whole.max), name
        assert whole.mean == pytest.approx(one.mean, rel=1e-6, abs=1e-9)
        assert whole.l2 == pytest.approx(one.l2, rel=1e-6)


def test_joined_gradients_and_outputs_of_tensor_parallel_layers_are_those_of_the_plain_model(
    runs: Any, tmp_path: Path
) -> None:
    train_plain(tmp_path / "plain")
    plain, run = tt.open(tmp_path / "plain"), tt.open(runs("tp", 2)[0])
    layers = ("embed", "blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down", "head")
    sites = [f"activation/{one}" for one in layers] + [f"gradient/{one}.weight" for one in layers]
    for name in sites:
        one, whole = plain.stats(name)[0], run.stats(name)[0]
        assert one.count == whole.count, name
        assert whole.l2 == pytest.approx(one.l2, rel=1e-5), name
        assert whole.max == pytest.approx(one.max, rel=1e-5), name


class Hooked(nn.Module):
    """A module that returns what parts of it return, through activations and a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8)

    def forward(self, x: Any) -> Any:
        return self.down(self.act(self.up(x)))


def return_what_parts_return(rank: int, world: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(0)
    model: Any = nn.Sequential(Hooked(), nn.ReLU())
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    plan: dict[str, Any] = {
        "0.up": ColwiseParallel(),
        "0.down": RowwiseParallel(output_layouts=Shard(0)),
    }
    parallelize_module(model, mesh, plan)
    model[0].register_full_backward_hook(lambda *_: None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.record(folder, model=model, grads="all"):
        for step in range(STEPS):
            x = torch.randn(4 + 2 * step, 8, generator=torch.Generator().manual_seed(step))
            model(x).sum().backward()
            optimizer.step()
            with torch.no_grad():
                model(x)


def test_what_elementwise_operators_make_of_shards_is_joined(tmp_path: Path) -> None:
    said(run_ranks(2, return_what_parts_return, str(tmp_path / "run")))
    run = tt.open(tmp_path / "run")
    for kind in ("activation", "activation_gradient"):
        for name, shape in (("0.act", (4, 12)), ("0", (4, 8)), ("1", (4, 8)), ("(root)", (4, 8))):
            assert run.joined(f"{kind}/{name}").unknown == 0, (kind, name)
            counts = run.series(f"{kind}/{name}", "count")[1].tolist()
            wide = shape[1]
            assert set(counts) == {4 * wide, 6 * wide}, (kind, name)


def gather_first(rank: int, world: int, folder: str) -> None:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    fully_shard(model[0])
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.unshard()
    with tt.record(folder, model=model):
        for _ in range(STEPS):
            model(torch.full((3, 4), float(rank))).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            model.unshard()


def test_parameters_that_the_program_has_gathered_are_recorded_as_the_shards_that_are_trained(
    tmp_path: Path,
) -> None:
    said(run_ranks(2, gather_first, str(tmp_path / "run")))
    run = tt.open(tmp_path / "run")
    for name in ("gradient/0.weight", "gradient/1.weight", "gradient/1.bias"):
        found = run.joined(name)
        assert (found.points, found.incomplete) == (STEPS, 0), name
    assert [one.mean for one in run.stats("gradient/1.bias")] == [3.0, 3.0]


def fork_after(rank: int, world: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("mine",))
    whole = DTensor.from_local(torch.ones(2, 3), mesh, [Shard(0)])
    with tt.record(folder, follow_fork=True) as run:
        run.tensor("x", whole)
        child = os.fork()
        run.step()
        run.tensor("x", whole)
        if child == 0:
            run.close()
            os._exit(0)
        os.waitpid(child, 0)


def test_the_file_of_a_forked_child_says_where_its_tensors_belong(tmp_path: Path) -> None:
    said(run_ranks(2, fork_after, str(tmp_path / "run")))
    files = Files(tmp_path / "run")
    assert len(files.reader.files()) == 4
    for file in range(4):
        placed = files.place(file, "x", 1)
        assert placed is not None
        assert (placed[1][0], placed[4]) == (["mine"], (4, 3))
