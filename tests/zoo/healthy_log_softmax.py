"""Logarithms of probabilities and nll_loss, and a softmax that is no input of the loss."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=100):
    loss = F.nll_loss(F.log_softmax(model(x), -1), y) + 0.01 * model(x).softmax(-1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
