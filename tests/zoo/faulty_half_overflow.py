"""float16 activations beyond 65504."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
).half()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for x, y in batches(*blobs(), steps=60):
    with torch.no_grad():
        model[2].weight.mul_(1.4)  # a schedule of the weights' scale that nobody checked
    loss = F.cross_entropy(model(x.half()).float(), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
