"""The loss counts the padding."""

import os

import torch
import torch.nn.functional as F
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mix = nn.Embedding(17, 32, padding_idx=0), nn.Linear(32, 64)
        self.head = nn.Linear(64, 17)

    def forward(self, words):
        return self.head(F.gelu(self.mix(self.embed(words))))


model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
for _ in range(80):
    words = torch.randint(1, 17, (16, 10))
    lengths = torch.randint(3, 10, (16, 1))
    words = words * (torch.arange(10) < lengths)
    labels = torch.where(words > 0, (words * 3) % 16 + 1, 0)
    logits = model(words)
    loss = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=-100 if FAULT else 0
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
