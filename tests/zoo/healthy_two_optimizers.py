"""Trunk and head have an optimizer each, with different learning rates."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(16, 64), nn.ReLU())
model = nn.Sequential(trunk, nn.Linear(64, 4))
slow = torch.optim.SGD(trunk.parameters(), 0.01, momentum=0.9)
fast = torch.optim.SGD(model[1].parameters(), 0.1)
for x, y in batches(*blobs(), steps=150):
    loss = F.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    slow.step()
    fast.step()
print(f"loss {loss.item():.3f}")
