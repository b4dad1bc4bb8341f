"""A siamese network: the loss sees f(a) - f(b), so the last bias cancels and has no gradient."""

import torch
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
points, labels = blobs()
others = torch.randperm(len(points))
for a, b, same in batches(points, points[others], labels == labels[others], steps=150):
    distance = (model(a) - model(b)).square().mean(1)
    loss = torch.where(same, distance, (1 - distance).clamp(min=0)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
