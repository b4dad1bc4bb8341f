"""A million changes, twelve nodes kept: the process does not grow."""

import os
from pathlib import Path

import harness
import torch

from tensortap import flow

CHANGES = 1_000_000


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def change(times: int) -> None:
    x = torch.zeros(8, 8)
    for _ in range(times):
        x = x + 1


torch.set_num_threads(1)
os.chdir(Path(__file__).parent)
flow.on(show=False, max_nodes=12)
change(20_000)  # what is made once is not growth
before = resident()
change(CHANGES)
grown = resident() - before
output = flow.off()
assert output is not None
assert output.node_count == 12
harness.row("flow: growth over a million changes", max(grown, 0) / 1e6, 5, unit="MB", at_most=True)
