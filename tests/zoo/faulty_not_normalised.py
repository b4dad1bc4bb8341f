"""Inputs between 0 and 255."""

import torch
import torch.nn.functional as F
from data import batches, images
from torch import nn

torch.manual_seed(0)
pictures, labels = images()
pictures = ((pictures - pictures.min()) / (pictures.max() - pictures.min()) * 255).round()
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for x, y in batches(pictures, labels, steps=120):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
