"""Collect local variables of a model by their paths.

    python examples/trace_locals.py

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import torch
from torch import nn

from tensortap.trace import ModelTracer


class Block(nn.Module):
    """A layer whose gate is a local variable."""

    def __init__(self) -> None:
        """Create the layer."""
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the gated input."""
        gate = self.linear(x).sigmoid()
        return x * gate


torch.manual_seed(0)
model = nn.Sequential(Block(), Block(), Block())
with ModelTracer(model, ["*.forward.gate", "forward"]) as tracer:
    for _ in range(3):
        model(torch.randn(2, 4))

for name, result in sorted(tracer.results.items()):
    means = ", ".join(f"{value.mean():.3f}" for value in result.values)
    print(f"{name:16} iterations {result.iterations}  means {means}")
