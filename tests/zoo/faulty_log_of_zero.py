"""The loss takes the logarithm of a probability that becomes 0."""

import torch
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.5)
for x, y in batches(*blobs(), steps=150):
    loss = -model(x * 20).softmax(-1)[range(32), y].log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
