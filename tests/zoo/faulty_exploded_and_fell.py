"""A learning rate that is too high for ten steps: the loss explodes, and falls again."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
points, _ = blobs()
values = points @ torch.randn(16, 1)
for step, (x, y) in enumerate(batches(points, values, steps=120)):
    optimizer.param_groups[0]["lr"] = 3.0 if 20 <= step < 30 else 0.01
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
