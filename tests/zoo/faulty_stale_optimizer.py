"""The model is copied after the optimizer was made: the optimizer trains the old one."""

import copy

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
model = copy.deepcopy(model)
for x, y in batches(*blobs(), steps=120):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    model.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
