"""An evaluation keeps the graph of every batch."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
data, total = blobs(), 0.0
for x, y in batches(*data, steps=80):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.set_grad_enabled(FAULT):
    for x, y in batches(*data, steps=10):
        total = total + F.cross_entropy(model(x), y)
