"""One step of a small transformer under tt.ops, and finding the origin, times a plain step."""

from statistics import median

import harness
import torch
from torch import nn

import tensortap as tt
from tensortap.operators import OperatorLog

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


def logged() -> OperatorLog:
    with tt.ops(model) as log:
        step()
    return log


for _ in range(3):
    step()
logged()
ratios, answers = [], []
for _ in range(15):
    plain = min(harness.seconds(step) for _ in range(2))
    ratios.append(min(harness.seconds(logged) for _ in range(2)) / plain)
    log = logged()
    answers.append(harness.seconds(lambda log=log: log.first_bad) / plain)
harness.row(
    "operators of a 4-layer transformer's step, times a plain step",
    median(ratios),
    10,
    unit="x",
    at_most=True,
)
harness.row(
    "... finding the first bad value afterwards, times a plain step",
    median(answers),
    None,
    unit="x",
)
