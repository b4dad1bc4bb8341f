"""A norm over a dimension of one."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 1 if FAULT else 8)
        self.norm = nn.LayerNorm(1 if FAULT else 8)
        self.head = nn.Linear(1 if FAULT else 8, 4)

    def forward(self, x):
        return self.head(self.norm(self.second(F.gelu(self.first(x)))))


model = Scorer()
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
for x, y in batches(*blobs(), steps=80):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
