"""A large embedding with sparse gradients; most rows are never looked up."""

import torch
import torch.nn.functional as F
from data import batches
from torch import nn

torch.manual_seed(0)


class Lookup(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5000, 16, sparse=True)
        self.head = nn.Linear(16, 4)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(rows))


model = Lookup()
optimizers = [
    torch.optim.SparseAdam(model.embed.parameters(), 1e-2),
    torch.optim.Adam(model.head.parameters(), 1e-2),
]
rows = torch.randperm(5000)[:200]
labels = rows % 4
for x, y in batches(rows, labels, steps=120):
    loss = F.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
print(f"loss {loss.item():.3f}")
