"""A block that forward forgets, while an optimizer holds its parameters."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 64)
        self.second = nn.Linear(64, 64)
        self.head = nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.first(x)))


model = Model()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=60):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
