"""What a rank holds between gathers: the kept values, a tensor that several names show once.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes

import harness
import torch
from torch import nn

from tensortap.trace import ModelTracer

torch.set_num_threads(1)
SIZE, STEPS = 1 << 20, 16  # 4 MB a tensor


class Chain(nn.Module):
    """Four names show each tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Identity(), nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        return self.b(y)


# Blocks of this size get pages of their own: holes in malloc's heap are not ours to count.
ctypes.CDLL(None).mallopt(-3, 1 << 20)  # M_MMAP_THRESHOLD
model = Chain()
paths = ["forward.x", "a", "forward.y", "b"]


def plain() -> None:
    for _ in range(STEPS):
        model(torch.randn(SIZE))


def traced() -> None:
    with ModelTracer(model, paths, gathering_interval=1 << 30):
        plain()


kept = STEPS * SIZE * 4
grown = harness.peak_extra(traced) - harness.peak_extra(plain)
harness.row(
    "trace: memory between gathers, of the kept values", grown / kept, 1.1, unit="x", at_most=True
)
