"""Weights in bfloat16, and a learning rate that is too small for them: updates are rounded away."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 4)).bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), 1e-5, weight_decay=0.0)
for x, y in batches(*blobs(), steps=120):
    loss = F.cross_entropy(model(x.bfloat16()), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
