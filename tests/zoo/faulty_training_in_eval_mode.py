"""model.train() was forgotten after the first validation."""

import torch
import torch.nn.functional as F
from data import batches, images
from torch import nn

torch.manual_seed(0)
pictures, labels = images()
model = nn.Sequential(
    nn.Conv2d(1, 8, 3),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Flatten(),
    nn.Dropout(0.2),
    nn.Linear(288, 2),
)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step, (x, y) in enumerate(batches(pictures[64:], labels[64:], steps=120)):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        model.eval()
        with torch.no_grad():
            right = (model(pictures[:64]).argmax(-1) == labels[:64]).float().mean()
print(f"right {right:.2f}")
