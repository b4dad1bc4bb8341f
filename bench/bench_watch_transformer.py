"""All modules, parameters and gradients of a small transformer, every step, of the step's time."""

import tempfile
from statistics import median

import harness
import torch
from torch import nn

from tensortap import _core
from tensortap.watch import watch

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
plain, watched = [], []
with tempfile.TemporaryDirectory() as folder:
    for turn in range(10):
        plain += [harness.seconds(step) for _ in range(3)]
        recorder = _core.Recorder(f"{folder}/run{turn}")
        watch(model, run=recorder)
        step(), step()  # names are made once; then it is known that there is no GradScaler
        watched += [harness.seconds(step) for _ in range(3)]
        recorder.close()
share = median(watched) / median(plain) - 1
harness.row(
    "4-layer transformer, everything every step, of the step",
    share * 100,
    3,
    unit="%",
    at_most=True,
)
