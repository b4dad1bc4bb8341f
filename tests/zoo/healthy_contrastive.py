"""Two noisy views of one point are brought together."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
for x, _ in batches(*blobs(), size=64, steps=120):
    first = F.normalize(model(x + 0.3 * torch.randn_like(x)), dim=-1)
    second = F.normalize(model(x + 0.3 * torch.randn_like(x)), dim=-1)
    loss = F.cross_entropy(first @ second.T / 0.2, torch.arange(64))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
