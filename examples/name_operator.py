"""Name the operator that makes the first NaN: python examples/name_operator.py."""

import torch
from torch import nn

import tensortap as tt


class Attention(nn.Module):
    """Divide by the root of the mean, which may be negative."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scaled input."""
        scale = x.mean(-1).sqrt()
        return x / scale[:, None]


model = nn.Sequential(nn.Identity(), Attention(), nn.Linear(4, 1))
x = torch.ones(8, 4)
x[3] = -1
with tt.ops(model) as log:
    loss = model(x).square().mean()
    loss.backward()
print(log)
