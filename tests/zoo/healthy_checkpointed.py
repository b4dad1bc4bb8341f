"""Activation checkpointing: every forward inside runs twice."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU()) for _ in range(4)
        )
        self.head = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


model = Deep()
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
for x, y in batches(*blobs(), steps=120):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
