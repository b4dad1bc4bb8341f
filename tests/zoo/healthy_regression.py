"""Regression until it converged; the learning rate is lowered when the loss stands still."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
points, _ = blobs()
target = points @ torch.randn(16, 1) / 4
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=10)
for x, y in batches(points, target, size=64, steps=250):
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step(loss.item())
print(f"loss {loss.item():.3f}")
