"""Twenty sigmoid layers: the gradient dies on its way to the first."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(16, 32),
    *(m for _ in range(20) for m in (nn.Sigmoid(), nn.Linear(32, 32))),
    nn.Linear(32, 4),
)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=100):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
