"""A Muon-like optimizer for the matrices beside AdamW for the rest."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                mean.mul_(0.9).add_(p.grad)
                whole = mean / mean.norm()
                for _ in range(5):  # Newton-Schulz: towards the nearest orthogonal matrix
                    whole = 1.5 * whole - 0.5 * whole @ whole.T @ whole
                p.add_(whole, alpha=-group["lr"])


model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
matrices = [p for p in model.parameters() if p.ndim == 2]
rest = [p for p in model.parameters() if p.ndim < 2]
optimizers = [Muon(matrices, 0.02), torch.optim.AdamW(rest, 3e-3)]
for x, y in batches(*blobs(), steps=100):
    loss = F.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
print(f"loss {loss.item():.3f}")
