"""float16 autocast with a GradScaler, which skips its first steps until the scale fits."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17)
for x, y in batches(*blobs(), steps=120):
    with torch.autocast("cpu", torch.float16):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.3f}")
