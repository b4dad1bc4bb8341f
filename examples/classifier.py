"""Train a small classifier.  Its loss becomes NaN; docs/tutorial/bug.ipynb finds out why.

    tensortap run examples/classifier.py [--fixed]

It does not use tensortap.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys

import torch
from torch import nn


def loss_of(outputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy."""
    if "--fixed" in sys.argv:
        return nn.functional.cross_entropy(outputs, classes)
    wanted = nn.functional.one_hot(classes, 3)
    return -(outputs.softmax(-1).log() * wanted).sum(-1).mean()


def main() -> None:
    """Train for 120 steps on three clouds of points."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    centres = torch.tensor([[4.0, 0.0], [-2.0, 3.5], [-2.0, -3.5]])
    model = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(120):
        classes = torch.randint(3, (128,))
        points = centres[classes] + torch.randn(128, 2)
        optimizer.zero_grad()
        loss = loss_of(model(points), classes)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
