"""One parameter group has a learning rate that rewrites its weights at every step."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
groups = [
    {"params": [*model[0].parameters(), *model[4].parameters()]},
    {"params": model[2].parameters(), "lr": 0.3},
]
optimizer = torch.optim.Adam(groups, 1e-3)
for x, y in batches(*blobs(), steps=120):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
