"""Embedding and head share one weight."""

import torch
import torch.nn.functional as F
from data import batches, sentences
from torch import nn

torch.manual_seed(0)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 32)
        self.inner = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.head = nn.Linear(32, 16, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words)
        return self.head(x + self.inner(x))


model = Words()
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
for (text,) in batches(sentences(), steps=150):
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
