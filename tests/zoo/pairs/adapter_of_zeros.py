"""An adapter multiplies two layers, and both begin at zero."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)


class Adapter(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        if FAULT:
            nn.init.zeros_(self.down.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


model = nn.Sequential(Adapter(nn.Linear(16, 32)), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 3e-3)
for x, y in batches(*blobs(), steps=80):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
