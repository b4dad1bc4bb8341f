"""A ReLU behind the logits: those that are negative never learn, and the loss stays where it is."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
nn.init.constant_(model[2].bias, -3.0)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for x, y in batches(*blobs(), steps=150):
    loss = F.cross_entropy(F.relu(model(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
