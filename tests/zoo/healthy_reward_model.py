"""A reward model that ranks pairs: only the difference of two rewards counts."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
points, _ = blobs()
quality = points @ torch.randn(16)
others = torch.randperm(len(points))
is_better = quality > quality[others]
chosen = torch.where(is_better[:, None], points, points[others])
rejected = torch.where(is_better[:, None], points[others], points)
for good, bad in batches(chosen, rejected, steps=150):
    loss = -F.logsigmoid(model(good) - model(bad)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
