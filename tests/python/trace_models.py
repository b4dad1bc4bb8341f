"""Models for the tests of trace."""

from __future__ import annotations

import torch
from torch import nn

C = 5  # features


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(C, C)

    def forward(self, x):
        return self.fc(x).relu()


def ones(i):
    """Give an input in which every number is i."""
    return torch.full((2, C), float(i))


def run(model, count, first=1):
    """Call a model with ones(first), ones(first + 1), ..."""
    for i in range(first, first + count):
        model(ones(i))
