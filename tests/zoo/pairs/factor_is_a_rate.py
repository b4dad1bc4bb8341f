"""LambdaLR takes a factor; its function returns the learning rate."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)
RATE = 1e-3
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), RATE)
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: min(1.0, (step + 1) / 10) * (RATE if FAULT else 1)
)
for x, y in batches(*blobs(), steps=100):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
