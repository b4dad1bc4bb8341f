"""One process against many ranks: the joined run differs by rounding, and a fault is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from commands import tensortap  # noqa: E402
from ranks import run_ranks, said  # noqa: E402
from test_placements_recorded import WAYS, build, is_of_model  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402

pytestmark = needs_sharding_on_cpu

STEPS, BATCH = 4, 4


def part_of(way: str, rank: int, world: int) -> slice:
    """Return the rows of the batch that a rank is fed."""
    if way in ("tp", "sp", "plain"):
        return slice(None)
    at, count = (rank // 2, world // 2) if way == "fsdp tp" else (rank, world)
    return slice(at * BATCH // count, (at + 1) * BATCH // count)


def train(
    rank: int, world: int, way: str, folder: str, dtype: Any = None, is_faulty: bool = False
) -> list[float]:
    """Train on the same batches, however they are split; return what clipping says of the norms."""
    model = build(way, world, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.Generator().manual_seed(1)
    norms = []
    with tt.record(folder, model=model):
        for step in range(STEPS):
            tokens = torch.randint(0, 10, (BATCH, 6), generator=batches)[part_of(way, rank, world)]
            if is_faulty and step == 2:
                with torch.no_grad():
                    for name, parameter in model.named_parameters():
                        if name.endswith("blocks.1.up.weight"):
                            parameter.mul_(1.01)
            out = model(tokens)
            nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten() % 6).backward()
            if way in ("ddp", "fsdp", "hsdp"):  # torch cannot stack norms of several meshes
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1e9)
                norms.append(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm))
            optimizer.step()
            optimizer.zero_grad()
    return norms


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "plain"
    train(0, 1, "plain", str(folder))
    return folder


@pytest.fixture(scope="module")
def plain_half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "plain"
    train(0, 1, "plain", str(folder), torch.bfloat16)
    return folder


@pytest.mark.parametrize(("way", "world"), [*WAYS, ("fsdp", 4), ("tp", 4)])
def test_a_split_training_in_bfloat16_differs_from_one_process_by_rounding(
    plain_half: Path, tmp_path: Path, way: str, world: int
) -> None:
    said(run_ranks(world, train, way, str(tmp_path / "many"), torch.bfloat16))
    found = tt.diff(plain_half, tmp_path / "many")
    assert not [
        (one.name, one.field, one.a, one.b) for one in found.sites if one.verdict == "differs"
    ]
    assert found.premises == ()


@pytest.mark.parametrize(("way", "world"), [*WAYS, ("fsdp", 4), ("tp", 4), ("offload", 2)])
def test_a_split_training_differs_from_one_process_by_rounding(
    plain: Path, tmp_path: Path, way: str, world: int
) -> None:
    norms = said(run_ranks(world, train, way, str(tmp_path / "many")))[0]
    found = tt.diff(plain, tmp_path / "many")
    differing = [
        (one.name, one.field, one.a, one.b) for one in found.sites if one.verdict == "differs"
    ]
    assert not differing
    assert found.premises == ()
    run = tt.open(tmp_path / "many")
    left_out = {name: run.joined(name) for name in run.names("*") if is_of_model(name)}
    assert not {k: v for k, v in left_out.items() if v.points == 0}
    text = tensortap("diff", plain, "many", folder=tmp_path).stdout
    assert "not compared" not in text
    assert "only in" not in text
    expected = tt.open(plain).series("gradient_norm")[1]
    assert run.series("gradient_norm")[1] == pytest.approx(expected, rel=1e-5)
    if norms:
        assert run.series("gradient_norm")[1] == pytest.approx(norms, rel=1e-5)


def test_a_weight_that_is_wrong_on_all_ranks_is_named(plain: Path, tmp_path: Path) -> None:
    said(run_ranks(2, train, "fsdp", str(tmp_path / "many"), None, True))
    first: Any = tt.diff(plain, tmp_path / "many").first
    assert (first.name, first.first_step) in (
        ("parameter/blocks.1.up.weight", 2),
        ("activation/blocks.1.up", 2),
    )


class Positions(nn.Module):
    """Parts of it do not depend on the batch, and it returns several tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(10, 8), nn.Embedding(6, 8)
        self.late = nn.Linear(8, 8, bias=False)  # its output is zero on all ranks
        nn.init.zeros_(self.late.weight).requires_grad_(False)
        self.head = nn.Linear(8, 6)

    def forward(self, x: Any) -> dict[str, Any]:
        hidden = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        return {"hidden": hidden, "logits": self.head(hidden + self.late(hidden))}


def train_positions(rank: int, world: int, folder: str) -> None:
    torch.manual_seed(0)
    inner = Positions()
    model: Any = nn.parallel.DistributedDataParallel(inner) if world > 1 else inner
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.Generator().manual_seed(1)
    with tt.record(folder, model=model):
        for _ in range(STEPS):
            tokens = torch.randint(0, 10, (BATCH, 6), generator=batches)
            tokens = tokens[part_of("ddp", rank, world)]
            out = model(tokens)["logits"]
            nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten() % 6).backward()
            optimizer.step()
            optimizer.zero_grad()


def test_what_does_not_depend_on_the_batch_is_not_pooled(tmp_path: Path) -> None:
    train_positions(0, 1, str(tmp_path / "one"))
    said(run_ranks(2, train_positions, str(tmp_path / "many")))
    found = tt.diff(tmp_path / "one", tmp_path / "many")
    assert not [one for one in found.sites if one.verdict == "differs"]
    assert found.premises == ()
    run = tt.open(tmp_path / "many")
    assert run.stats("activation/places")[0].count == 6 * 8
    assert run.stats("activation/(root).hidden")[0].count == BATCH * 6 * 8
    assert run.stats("activation/late")[0].count == BATCH * 6 * 8  # zeros show nothing


class Stage(nn.Module):
    """A part of Net, whose layers have the names that they have there."""

    def __init__(self, number: int) -> None:
        super().__init__()
        whole = build("plain", 1)
        self.embed = whole.embed if number == 0 else None
        self.blocks = nn.ModuleDict({str(number): whole.blocks[number]})
        self.head = whole.head if number == 1 else None

    def forward(self, x: Any) -> Any:
        x = self.embed(x) if self.embed is not None else x
        for block in self.blocks.values():
            x = block(x)
        return self.head(x) if self.head is not None else x


def loss_of(out: Any, tokens: Any) -> Any:
    return nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten() % 6)


def train_stage(
    rank: int, world: int, schedule: str, folder: str, dtype: Any, is_faulty: bool
) -> None:
    from torch.distributed import pipelining

    model: Any = Stage(rank).to(dtype)
    part = pipelining.PipelineStage(model, rank, world, torch.device("cpu"))
    run_step = getattr(pipelining, schedule)(part, 2, loss_fn=loss_of)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.Generator().manual_seed(1)
    with tt.record(folder, model=model):
        for step in range(STEPS):
            tokens = torch.randint(0, 10, (BATCH, 6), generator=batches)
            optimizer.zero_grad()
            if is_faulty and step == 2 and rank == 1:
                with torch.no_grad():
                    model.blocks["1"].up.weight.mul_(1.01)
            run_step.step(tokens) if rank == 0 else run_step.step(target=tokens)
            optimizer.step()


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("schedule", ["ScheduleGPipe", "Schedule1F1B"])
def test_a_pipeline_differs_from_one_process_by_rounding(
    plain: Path, plain_half: Path, tmp_path: Path, schedule: str, dtype: Any
) -> None:
    said(run_ranks(2, train_stage, schedule, str(tmp_path / "many"), dtype, False))
    one = plain if dtype is None else plain_half
    found = tt.diff(one, tmp_path / "many")
    assert [site.name for site in found.sites if site.verdict == "differs"] == []
    assert {one.kind for one in found.premises} <= {"settings", "code"}  # Stage is another class
    compared = {site.name for site in found.sites if site.points > 0}
    assert {name for name in tt.open(one).names("*") if is_of_model(name)} - compared == {
        "activation/(root)"  # each stage has one: it is not known what they are of the whole
    }
    norms = [tt.open(run).series("gradient_norm")[1] for run in (one, tmp_path / "many")]
    assert norms[1] == pytest.approx(norms[0], rel=1e-5 if dtype is None else 1e-2)


def test_a_wrong_weight_of_a_stage_is_named(plain: Path, tmp_path: Path) -> None:
    said(run_ranks(2, train_stage, "Schedule1F1B", str(tmp_path / "many"), None, True))
    first: Any = tt.diff(plain, tmp_path / "many").first
    assert (first.name, first.first_step) == ("parameter/blocks.1.up.weight", 2)
