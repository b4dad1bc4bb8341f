"""float16 gradients without a GradScaler: most of them are flushed to zero."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
).half()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for x, y in batches(*blobs(), steps=100):
    loss = F.cross_entropy(model(x.half()), y) * 1e-5
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3g}")
