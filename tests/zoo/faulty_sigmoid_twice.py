"""A sigmoid before a loss that applies one itself."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=100):
    loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), (y > 1).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
