"""Dropout on many ranks: masks that ought to differ and do not."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402
from test_placements_recorded import build  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402

pytestmark = needs_sharding_on_cpu


def train(
    rank: int, world: int, way: str, folder: str | None, own_seed: bool, p: float
) -> tuple[list[str], bytes]:
    model = build(way, world)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = p
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.Generator().manual_seed(0 if way == "tp" else rank)
    torch.manual_seed(rank if own_seed else 0)
    run = tt.record(folder, model=model) if folder else None
    losses = []
    for _ in range(2):
        tokens = torch.randint(0, 10, (3, 6), generator=rows)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten() % 6)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    if run is not None:
        run.close()
    return losses, bytes(torch.get_rng_state().tolist())


def sentences(run: Path) -> list[tuple[str, str]]:
    notes = tt.health(run).notes
    return [(one.severity, one.sentence) for one in notes if one.rule == "dropout-seeds"]


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_equal_masks_of_replicas_are_noted(tmp_path: Path, way: str) -> None:
    said(run_ranks(2, train, way, str(tmp_path / "run"), False, 0.2))
    ((severity, sentence),) = sentences(tmp_path / "run")
    assert severity == "note"
    assert sentence == (
        "2 ranks had the same random state at the first step: dropout (blocks.0.drop) probably "
        "drops the same places on each, although each has other rows"
    )


@pytest.mark.parametrize(("own_seed", "p"), [(True, 0.2), (False, 0.0)])
def test_other_masks_of_replicas_and_none_are_not(tmp_path: Path, own_seed: bool, p: float) -> None:
    said(run_ranks(2, train, "ddp", str(tmp_path / "run"), own_seed, p))
    assert sentences(tmp_path / "run") == []


@pytest.mark.parametrize("own_seed", [True, False])
def test_nothing_is_said_of_ranks_that_share_their_rows(tmp_path: Path, own_seed: bool) -> None:
    said(run_ranks(2, train, "tp", str(tmp_path / "run"), own_seed, 0.2))
    assert sentences(tmp_path / "run") == []


def test_the_random_state_is_only_looked_at(tmp_path: Path) -> None:
    watched = said(run_ranks(2, train, "ddp", str(tmp_path / "run"), True, 0.2))
    assert watched == said(run_ranks(2, train, "ddp", None, True, 0.2))
    run = tt.open(tmp_path / "run")
    states = [run.series("tensortap/random_state", rank=rank) for rank in range(2)]
    assert [steps.tolist() for steps, _ in states] == [[0], [0]]
    assert states[0][1][0] != states[1][1][0]
