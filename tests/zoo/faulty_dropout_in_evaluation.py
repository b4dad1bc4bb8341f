"""model.eval() was forgotten: dropout stays on in validation."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
points, labels = blobs()
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), 2e-3)
for step, (x, y) in enumerate(batches(points[128:], labels[128:], steps=150)):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 24:
        with torch.no_grad():
            right = (model(points[:128]).argmax(-1) == labels[:128]).float().mean()
print(f"right {right:.2f}")
