"""What readers of the guides have: a model, data and a training loop.

Comments of the pages import it, so that their ```python blocks run (docs/check_docs.py).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import tensortap as tt

__all__ = ["F", "loader", "model", "nn", "optimizer", "torch", "train", "tt", "x"]

torch.manual_seed(0)
x = torch.randn(8, 4)
loader = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(8)]
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(what: Any, steps: int = 1) -> torch.Tensor:
    """Train a model on all batches, or `model` on one; return the last loss."""
    trained, batches = (what, loader * steps) if callable(what) else (model, [what])
    for data, target in batches:
        loss: torch.Tensor = F.mse_loss(trained(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
