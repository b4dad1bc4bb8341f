"""The last batch of an epoch has one sample, which a batch norm cannot take."""

import os

import torch
import torch.nn.functional as F
from data import blobs
from torch import nn

FAULT = os.environ.get("FAULT") == "1"
torch.manual_seed(0)

model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
x, y = blobs(321 if FAULT else 320)
data = torch.utils.data.TensorDataset(x, y)
for _ in range(3):
    for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
