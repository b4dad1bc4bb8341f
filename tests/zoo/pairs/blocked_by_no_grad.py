"""A part of the model runs without gradients."""

import os

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.Tanh())
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        with torch.set_grad_enabled(not FAULT):
            h = self.encoder(x)
        return self.head(h)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
for x, y in batches(*blobs(), steps=80):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
