"""A mask keeps what it should drop."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)


class Keep(nn.Module):
    def forward(self, x, keep):
        return x * keep


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.keep, self.head = nn.Linear(16, 128), Keep(), nn.Linear(128, 4)

    def forward(self, x):
        drop = torch.zeros(x.shape[0], 128)
        drop[:, :2] = 1
        return self.head(self.keep(F.gelu(self.first(x)), drop if FAULT else 1 - drop))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
for x, y in batches(*blobs(), steps=80):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
