"""A training step of a small transformer, called from a file that is watched; processor time."""

import time
from statistics import median

import harness
import torch

from tensortap import _core

torch.set_num_threads(1)
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(8, 64, 256)


def step():
    optimizer.zero_grad()
    y = model(x)
    loss = y.square().mean()
    loss.backward()
    optimizer.step()
    return loss


def seconds():
    start = time.thread_time_ns()
    step()
    return (time.thread_time_ns() - start) / 1e9


plain, ours = [], []
step()
for _ in range(12):
    plain.append(seconds())
    with _core.watch_lines(lambda event: None, select=lambda code: code.co_filename == __file__):
        ours.append(seconds())
harness.row(
    "line source: training step",
    median(o / p for o, p in zip(ours, plain, strict=True)),
    1.03,
    unit="x",
    at_most=True,
)
harness.row(
    "line source: training step, least", min(ours) / min(plain), 1.03, unit="x", at_most=True
)
