"""Probabilities are given to cross_entropy, which makes a log_softmax of its own."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4), nn.Softmax(-1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=100):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
