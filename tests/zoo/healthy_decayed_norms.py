"""Strong weight decay on everything: the weights of the norms shrink within a few steps."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(16, 64),
    nn.LayerNorm(64),
    nn.GELU(),
    nn.Linear(64, 64),
    nn.LayerNorm(64),
    nn.GELU(),
    nn.Linear(64, 4),
)
optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=5.0)
for x, y in batches(*blobs(), steps=200):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
