"""A variational autoencoder."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decode = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encode(x).chunk(2, -1)
        drawn = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        return self.decode(drawn), mean, log_variance


model = Vae()
optimizer = torch.optim.Adam(model.parameters(), 2e-3)
for x, _ in batches(*blobs(), steps=200):
    decoded, mean, log_variance = model(x)
    distance = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(-1).mean()
    loss = F.mse_loss(decoded, x) * 16 + distance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
