"""Both factors of an adapter begin with zero."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)


class Adapted(nn.Module):
    def __init__(self, inputs, outputs, rank=4):
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.lora_A, self.lora_B = (
            nn.Linear(inputs, rank, bias=False),
            nn.Linear(rank, outputs, bias=False),
        )
        nn.init.zeros_(self.lora_B.weight)
        if FAULT:
            nn.init.zeros_(self.lora_A.weight)

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x))


model = nn.Sequential(Adapted(16, 32), nn.GELU(), Adapted(32, 32), nn.GELU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 3e-3)
for x, y in batches(*blobs(), steps=80):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
