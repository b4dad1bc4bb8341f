"""Record a small transformer while it learns, and look at the run.

    python examples/transformer.py

It learns to reverse a sequence.  See docs/guide/record.md.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys

try:
    import torch
except ModuleNotFoundError:
    sys.exit("this example needs torch")

import tensortap as tt

torch.manual_seed(0)
torch.set_num_threads(1)

WORDS, LENGTH, STEPS = 16, 12, 60


class Reverser(torch.nn.Module):
    """A transformer of two layers with positions."""

    def __init__(self, width: int = 64) -> None:
        """Create the layers."""
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, width)
        self.places = torch.nn.Parameter(torch.randn(LENGTH, width) * 0.1)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(width, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of each position."""
        out: torch.Tensor = self.head(self.layers(self.words(tokens) + self.places))
        return out


model = Reverser()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

with tt.record(model=model, optimizer=optimizer) as run:
    for _ in range(STEPS):
        tokens = torch.randint(WORDS, (32, LENGTH))
        logits = model(tokens)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log("loss", loss)

print(f"The run is in {run.path}; recording took {run.cost:.1%} of the time.\n")
seen = tt.open(run.path)
print(seen)
losses = seen.series("loss")[1]
print(f"\nThe loss went from {losses[0]:.3f} to {losses[-1]:.3f}")
print("\nGradients of the last step, the largest first")
norms = {name: seen.stats(name)[-1].l2 for name in seen.names("gradient/*")}
for name in sorted(norms, key=lambda name: -norms[name])[:5]:
    print(f"    {norms[name]:.4f}  {name}")
