"""Training steps with and without tracing: a transformer, 100 Linear, and steps not traced.

Steps with and without take turns in one process; the median of the ratios of neighbours.
SPDX-License-Identifier: Apache-2.0
"""

import warnings
from statistics import median

import harness
import torch
from torch import nn

from tensortap.trace import ModelTracer

torch.set_num_threads(1)
torch.manual_seed(0)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(256, 768)
        self.out = nn.Linear(256, 256)
        self.norm1, self.norm2 = nn.LayerNorm(256), nn.LayerNorm(256)
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        parts = self.qkv(h).view(8, 64, 3, 4, 64).permute(2, 0, 3, 1, 4)
        attn = nn.functional.scaled_dot_product_attention(*parts)
        attn = attn.transpose(1, 2).reshape(8, 64, 256)
        x = x + self.out(attn)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def stepper(model, x):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        model(x.clone()).square().mean().backward()
        optimizer.step()

    return step


def ratio(model, x, paths, *, turns, each=2, **options) -> float:
    """Compare steps in an open trace with as many before and after it."""
    step = stepper(model, x)

    def many() -> None:
        for _ in range(each):
            step()

    many()
    found = []
    tracer = ModelTracer(model, paths, **options)
    before = harness.seconds(many)
    for _ in range(turns):
        with warnings.catch_warnings(), tracer:
            warnings.simplefilter("ignore")  # nothing matches where nothing is traced
            step()  # it is open for long, and was opened once
            traced = harness.seconds(many)
        after = harness.seconds(many)
        found.append(2 * traced / (before + after))
        before = after
    return median(found)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


transformer = Transformer()
batch = torch.randn(8, 64, 256)
wanted = ["layers.*", "layers.*.forward.h"]
harness.row(
    "trace: transformer, outputs and a local of every layer",
    ratio(transformer, batch, wanted, turns=24, gathering_interval=4),
    1.05,
    unit="x",
    at_most=True,
)


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(64, 64) for _ in range(100)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return y


linears = Linears()
small = torch.randn(32, 64)
for path in ("layers.50", "layers.50.forward.input", "forward.x"):
    harness.row(
        f"trace: 100 Linear(64, 64), one path ({path})",
        ratio(linears, small, [path], turns=60, gathering_interval=4),
        1.05,
        unit="x",
        at_most=True,
    )


class Loop(Linears):
    """Its local x is another tensor after each of the hundred."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


harness.row(
    "trace: 100 Linear(64, 64), one path of 101 values",
    ratio(Loop(), small, ["forward.x"], turns=30, gathering_interval=4),
    1.05,
    unit="x",
    at_most=True,
)
never = {"trace_interval": 1 << 40, "gathering_interval": 1 << 40}
for what, model, x, paths in (
    ("transformer", transformer, batch, wanted),
    ("100 Linear, one path", linears, small, ["forward.x"]),
):
    turns = 24 if model is transformer else 120
    harness.row(
        f"trace: steps that are not traced, {what}",
        (ratio(model, x, paths, turns=turns, **never) - 1) * 100,
        0.5,
        unit="% more",
        at_most=True,
    )
