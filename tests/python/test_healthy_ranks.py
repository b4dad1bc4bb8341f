"""Healthy trainings on real ranks, of which the rule about replicas must not say anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks import run_ranks, said  # noqa: E402
from test_placements_recorded import build  # noqa: E402
from torch import nn  # noqa: E402
from versions import needs_sharding_on_cpu  # noqa: E402

import tensortap as tt  # noqa: E402

pytestmark = needs_sharding_on_cpu

RUNS: list[tuple[str, int, str, dict[str, Any], Any]] = [
    ("ddp", 2, "AdamW", {"lr": 1e-3}, None),
    ("ddp", 4, "SGD", {"lr": 0.05, "momentum": 0.9}, torch.bfloat16),
    ("fsdp", 2, "AdamW", {"lr": 1e-3}, torch.bfloat16),
    ("fsdp", 4, "RMSprop", {"lr": 1e-3}, None),
    ("hsdp", 4, "Adam", {"lr": 1e-3}, None),
    ("tp", 2, "AdamW", {"lr": 1e-3}, None),
    ("sp", 2, "SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}, None),
    ("fsdp tp", 4, "AdamW", {"lr": 1e-3}, None),
]


def train(
    rank: int, world: int, way: str, folder: str, name: str, options: dict[str, Any], dtype: Any
) -> None:
    model = build(way, world, dtype)
    is_split = way in ("ddp", "fsdp", "hsdp")
    for module in model.modules():  # ranks with other parts of the batch drop other units
        if isinstance(module, nn.Dropout) and is_split:
            module.p = 0.2
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    part = rank if is_split else rank // 2 if way == "fsdp tp" else 0
    torch.manual_seed(part)
    with tt.record(folder, model=model, keep="stats,digest"):
        for _ in range(8):
            tokens = torch.randint(0, 10, (3 if way == "ddp" else 4, 6))
            nn.functional.cross_entropy(
                model(tokens).float().flatten(0, 1), tokens.flatten() % 6
            ).backward()
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize(("way", "world", "name", "options", "dtype"), RUNS)
def test_a_healthy_training_has_no_odd_replica(
    tmp_path: Path, way: str, world: int, name: str, options: dict[str, Any], dtype: Any
) -> None:
    said(run_ranks(world, train, way, str(tmp_path / "run"), name, options, dtype))
    assert list(tt.health(tmp_path / "run", select=["ranks-differ"])) == []
