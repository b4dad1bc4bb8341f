"""A denoiser that knows the level of the noise."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Linear(8, 64)
        self.first = nn.Linear(16, 64)
        self.rest = nn.Sequential(nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 16))

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        waves = torch.cat([(level[:, None] * 2**i).sin() for i in range(8)], -1)
        return self.rest(self.first(x) + self.level(waves))


model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
for x, _ in batches(*blobs(), size=64, steps=150):
    level = torch.rand(64)
    noise = torch.randn_like(x)
    mixed = (1 - level[:, None]).sqrt() * x + level[:, None].sqrt() * noise
    loss = F.mse_loss(model(mixed, level), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
