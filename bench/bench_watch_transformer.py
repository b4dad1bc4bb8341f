"""All modules, parameters and gradients of a small transformer, every step, of the step's time."""

import tempfile
from statistics import median

import harness
import torch
from torch import nn

from tensortap import _core
from tensortap.runs.watch import watch

torch.set_num_threads(1)
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(8, 64, 256)


def step() -> None:
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


for _ in range(3):
    step()
ratios = []
with tempfile.TemporaryDirectory() as folder:
    # One run for all turns, as a training has: a recorder's start is not a step's cost.
    recorder = _core.Recorder(f"{folder}/run")
    for _ in range(25):
        plain = min(harness.seconds(step) for _ in range(2))
        watched = watch(model, run=recorder)
        step(), step()  # names are made once; then it is known that there is no GradScaler
        ratios.append(min(harness.seconds(step) for _ in range(2)) / plain)
        watched.remove()
    recorder.close()
share = median(ratios) - 1
harness.row(
    "4-layer transformer, everything every step, of the step",
    share * 100,
    3,
    unit="%",
    at_most=True,
)
