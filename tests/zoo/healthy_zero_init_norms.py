"""Residual blocks whose last norm begins with a weight of zero, as in timm's ResNets."""

import torch
import torch.nn.functional as F
from data import batches, images
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        nn.init.zeros_(self.norm2.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(inner)))


stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
model = nn.Sequential(
    stem, Block(16), Block(16), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 2)
)
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
for x, y in batches(*images(), steps=100):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
