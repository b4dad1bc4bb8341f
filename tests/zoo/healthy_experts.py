"""A mixture of experts in which each batch leaves some experts idle."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)


class Experts(nn.Module):
    def __init__(self, count: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(16, count)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(count))
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(-1)
        best = weights.argmax(-1)
        mixed = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            chosen = (best == i).nonzero().flatten()
            if len(chosen):
                mixed[chosen] = expert(x[chosen]).tanh() * weights[chosen, i, None]
        return self.head(mixed)


model = Experts()
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for x, y in batches(*blobs(), size=8, steps=200):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
