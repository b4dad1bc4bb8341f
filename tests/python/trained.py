"""Small trainings with a bad row in their data, for the tests of black box and replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import tensortap as tt

ROWS, BATCH, BAD_ROW = 64, 4, 41


def rows(*shape: int, bad: bool = True) -> DataLoader[Any]:
    """Return a loader of shuffled rows, one of which holds an Inf; the same rows every time."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(ROWS, *shape, generator=generator)
    y = torch.randn(ROWS, 1, generator=generator)
    if bad:
        x[BAD_ROW] = float("inf")
    return DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)


def forever(loader: DataLoader[Any]) -> Iterator[Any]:
    """Yield batches of one epoch after the other."""
    while True:
        yield from loader


class Net(nn.Module):
    """Layers that use random numbers, keep buffers, or are run again in backward."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layers: nn.Module
        if kind == "cnn":
            self.layers = nn.Sequential(
                nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten()
            )
            width = 4 * 4 * 4
        elif kind == "lstm":
            self.layers = nn.LSTM(8, 16, num_layers=2, dropout=0.2, batch_first=True)
            width = 16
        elif kind == "transformer":
            layer = nn.TransformerEncoderLayer(8, 2, 32, dropout=0.2, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            width = 8
        else:
            self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3))
            width = 16
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "checkpoint":
            hidden = checkpoint(self.layers, x, use_reentrant=False)
        else:
            hidden = self.layers(x)
        if self.kind == "lstm":
            hidden = hidden[0]
        if hidden.ndim == 3:
            hidden = hidden[:, -1]
        out: torch.Tensor = self.head(hidden)
        return out


SHAPES = {"cnn": (1, 6, 6), "lstm": (5, 8), "transformer": (5, 8)}


def train(
    kind: str, steps: int = 40, seed: int = 0, bad: bool = True, run: Any = None
) -> nn.Module:
    """Train a model of this kind for some steps."""
    torch.manual_seed(seed)
    if kind == "gan":
        return train_gan(steps, bad)
    net = Net(kind)
    tt.watch(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.7)
    scaler = torch.amp.GradScaler("cpu", enabled=kind == "scaler", growth_interval=3)
    batches = forever(rows(*SHAPES.get(kind, (8,)), bad=bad))
    cast: Callable[[], Any] = nullcontext
    if kind == "autocast":
        cast = lambda: torch.autocast("cpu", dtype=torch.bfloat16)  # noqa: E731
    parts = 3 if kind == "accumulation" else 1
    for _ in range(steps):
        for _ in range(parts):
            x, y = next(batches)
            with cast():
                loss = nn.functional.mse_loss(net(x), y) / parts
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        schedule.step()
    return net


def train_gan(steps: int, bad: bool) -> nn.Module:
    """Train two models with an optimizer each."""
    maker, judge = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2)), nn.Linear(8, 1)
    tt.watch(maker, name="maker")
    tt.watch(judge, name="judge")
    make = torch.optim.Adam(maker.parameters(), lr=0.01)
    tell = torch.optim.Adam(judge.parameters(), lr=0.01)
    batches = forever(rows(8, bad=bad))
    for _ in range(steps):
        real, _ = next(batches)
        fake = maker(torch.randn(BATCH, 4))
        loss = judge(fake.detach()).mean() - judge(real).mean()
        loss.backward()
        tell.step()
        tell.zero_grad()
        judge(fake).mean().neg().backward()
        make.step()
        make.zero_grad()
        tell.zero_grad()
    return maker
