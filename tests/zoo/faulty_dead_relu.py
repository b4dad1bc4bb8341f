"""A bias far below zero: a functional ReLU lets nothing through."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 64)
        self.second = nn.Linear(64, 64)
        self.third = nn.Linear(64, 4)
        nn.init.constant_(self.second.bias, -20.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(F.relu(self.second(F.relu(self.first(x)))))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=150):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
