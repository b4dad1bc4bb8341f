"""Predictions [N, 1] are compared with labels [N]."""

import os

import torch
from data import batches
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)
inputs = torch.randn(400, 10)
targets = inputs @ torch.randn(10) / 3 + 0.1 * torch.randn(400)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), 5e-3)
for x, y in batches(inputs, targets, steps=80):
    out = model(x)
    loss = ((out if FAULT else out.squeeze(1)) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
