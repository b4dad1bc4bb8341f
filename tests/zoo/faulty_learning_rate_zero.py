"""A warm-up that divides integers: the learning rate is 0 at every step."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step // 1000, 1))
for x, y in batches(*blobs(), steps=150):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
print(f"loss {loss.item():.3f}")
