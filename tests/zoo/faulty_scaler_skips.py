"""A GradScaler that finds an infinite gradient at every step, and skips all of them."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
for x, y in batches(*blobs(), steps=80):
    loss = (
        F.cross_entropy(model(x), y) + (model[0].bias - model[0].bias.detach()).abs().sqrt().sum()
    )
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.3f}")
