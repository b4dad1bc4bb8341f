"""next(iter(loader)) in the loop: every step sees the first batch again."""

import torch
import torch.nn.functional as F
from data import blobs
from torch import nn

torch.manual_seed(0)
points, labels = blobs()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(points, labels), batch_size=32)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(100):
    x, y = next(iter(loader))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
