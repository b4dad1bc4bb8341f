"""A helper froze the backbone and was never undone: only the head learns."""

import torch
import torch.nn.functional as F
from data import batches, images
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten()
        )
        self.head = nn.Linear(128, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))


model = Net()
for parameter in model.backbone.parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)  # has them, and can do nothing with them
for x, y in batches(*images(), steps=100):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
