"""Gradients of four small batches make one step."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for i, (x, y) in enumerate(batches(*blobs(), size=8, steps=320)):
    loss = F.cross_entropy(model(x), y) / 4
    loss.backward()
    if i % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
print(f"loss {4 * loss.item():.3f}")
