"""One group of the optimizer has a weight decay that halves its weights every three steps."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.trunk(x))


model = Model()
groups = [
    {"params": model.trunk.parameters()},
    {"params": model.head.parameters(), "weight_decay": 20.0 if FAULT else 0.01},
]
optimizer = torch.optim.AdamW(groups, lr=1e-2, weight_decay=0.01)
for x, y in batches(*blobs(), steps=100):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
