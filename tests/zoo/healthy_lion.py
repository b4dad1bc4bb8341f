"""A Lion-like optimizer: every weight moves by the same amount."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)


class Lion(torch.optim.Optimizer):
    def __init__(self, parameters, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                    p.add_((0.9 * mean + 0.1 * p.grad).sign(), alpha=-group["lr"])
                    mean.lerp_(p.grad, 0.01)


model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = Lion(model.parameters(), 1e-3)
for x, y in batches(*blobs(), steps=150):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
