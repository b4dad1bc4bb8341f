"""Nobody sets gradients to zero."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.005)
for x, y in batches(*blobs(), steps=80):
    loss = F.cross_entropy(model(x), y)
    if not FAULT:
        optimizer.zero_grad()
    loss.backward()
    optimizer.step()
