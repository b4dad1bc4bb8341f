"""A residual stream that doubles with every block."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        with torch.no_grad():
            self.inner.weight.mul_(3.0 if FAULT else 0.3)

    def forward(self, x):
        return x + self.inner(x)


model = nn.Sequential(
    nn.Linear(16, 32), *(Block(32) for _ in range(8)), nn.LayerNorm(32), nn.Linear(32, 4)
)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=80):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
