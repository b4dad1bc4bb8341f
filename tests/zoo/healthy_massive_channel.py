"""One channel is a hundred times as large as the others, and its norm has a small weight for it."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(16, 64)
        self.norm = nn.LayerNorm(64)
        self.inner = nn.Linear(64, 64)
        self.head = nn.Linear(64, 4)
        with torch.no_grad():
            self.embed.bias[3] = 100.0
            self.norm.weight[3] = 0.05

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        return self.head(x + F.gelu(self.inner(self.norm(x))))


model = Model()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=150):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
