"""What a captured line costs, with its table and the statistics of the whole tensor."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from harness import row, times

from tensortap import flow

LINES = 2000


def plain(x: torch.Tensor) -> None:
    for _ in range(LINES):
        y = x * 2.0  # noqa: F841


def captured(x: torch.Tensor) -> None:
    for _ in range(LINES):
        y = x * 2.0  # noqa: F841


def traced() -> None:
    flow.on(show=False)
    captured(X)
    flow.off(render=False)


X = torch.ones(8, 8)

if __name__ == "__main__":
    torch.set_num_threads(1)
    os.chdir(Path(__file__).parent)
    untraced, on = times(lambda: plain(X), traced, turns=31)
    cost = (on - untraced) / LINES * 1e6
    row(
        "flow: a line that makes an 8 x 8 tensor, over the untraced line",
        cost,
        3,
        unit="us",
        at_most=True,
    )
