"""A pretrained trunk is frozen on purpose and kept in eval mode; the head learns."""

import torch
import torch.nn.functional as F
from data import batches, images
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
model = nn.Sequential(trunk.requires_grad_(False).eval(), nn.Linear(288, 2))
optimizer = torch.optim.Adam(model[1].parameters(), 2e-3)
for x, y in batches(*images(), steps=120):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
