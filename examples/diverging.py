"""Train a small transformer; with --broken one of its weights goes wrong at step 20.

It does not use tensortap: `tensortap run examples/diverging.py` records it.
SPDX-License-Identifier: Apache-2.0
"""

import sys

import torch
from torch import nn


class Block(nn.Module):
    """One layer: attention, then a small network."""

    def __init__(self, width: int) -> None:
        """Create the parts of the layer."""
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 4, batch_first=True)
        inner = 4 * width
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the output of the layer to its input."""
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """Tokens in, logits of the next token out."""

    def __init__(self, vocabulary: int = 32, width: int = 64, layers: int = 4) -> None:
        """Create the layers."""
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Run every layer in turn."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def main() -> None:
    """Train for 40 steps on counting sequences."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(40):
        if step == 20 and "--broken" in sys.argv:
            with torch.no_grad():  # the planted fault: one weight of one layer overflows
                model.layers[2].mlp[0].weight[5, 7] = 3e38
        tokens = (torch.randint(32, (8, 1)) + torch.arange(17)) % 32
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
