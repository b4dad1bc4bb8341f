"""Train one model on several ranks.  It does not use tensortap.

    torchrun --nproc-per-node=2 --no-python tensortap run -o runs/ddp examples/ddp.py

Without torchrun it is a job of one rank.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import tempfile

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train for ten steps; every rank has data of its own."""
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        distributed.init_process_group("gloo")
    else:
        store = tempfile.NamedTemporaryFile(delete=False)  # noqa: SIM115
        distributed.init_process_group("gloo", f"file://{store.name}", rank=0, world_size=1)
    torch.manual_seed(0)  # the same model everywhere
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(distributed.get_rank())
    for _ in range(10):
        loss = (model(torch.randn(32, 8)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if distributed.get_rank() == 0:
        print(f"loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
