"""A convolutional network with max pooling and dropout, evaluated every 25 steps."""

import torch
import torch.nn.functional as F
from data import batches, images
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Dropout(0.2),
    nn.Linear(256, 2),
)
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
pictures, labels = images()
for step, (x, y) in enumerate(batches(pictures[64:], labels[64:], steps=120)):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 24:
        model.eval()
        with torch.no_grad():
            right = (model(pictures[:64]).argmax(-1) == labels[:64]).float().mean()
        model.train()
print(f"right {right:.2f}")
