"""The optimizer gets the parameters of the trunk and not those of the head."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.trunk(x))


model = Net()
optimizer = torch.optim.Adam(model.trunk.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=150):
    loss = F.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
