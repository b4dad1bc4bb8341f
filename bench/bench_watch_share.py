"""What watching a small model takes of the processor, over what the run says that it takes.

Watched and plain trainings alternate in one process; the writer's thread counts on both sides.
"""

import tempfile
import time
from statistics import median

import harness
import torch

import tensortap as tt

torch.set_num_threads(1)
STEPS = 1000
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
x = torch.randn(8, 16)


def train() -> float:
    """Return the processor time of one step, in us, of all threads."""
    start = time.process_time()
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return (time.process_time() - start) / STEPS * 1e6


train()
plain, watched, told = [], [], []
with tempfile.TemporaryDirectory() as folder:
    for turn in range(15):
        plain.append(train())
        opened = time.perf_counter()
        with tt.record(f"{folder}/{turn}", model=model) as run:
            watched.append(train())
            run.flush()
            told.append(run.cost * (time.perf_counter() - opened) / STEPS * 1e6)
more = median(watched) - median(plain)
harness.row("a step of 0.2 ms: what watching takes", more, None, unit="us")
harness.row("... and what the run says", median(told), None, unit="us")
harness.row("... the one over the other", more / median(told), None)
