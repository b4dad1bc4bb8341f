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


def measure(width: int, batch: int, steps: int) -> None:
    """Compare the two for a model of three layers."""
    model = torch.nn.Sequential(
        torch.nn.Linear(16, width), torch.nn.ReLU(), torch.nn.Linear(width, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    x = torch.randn(batch, 16)

    def train() -> float:
        """Return the processor time of one step, in us, of all threads."""
        start = time.process_time()
        for _ in range(steps):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        return (time.process_time() - start) / steps * 1e6

    train()
    plain, watched, told = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(15):
            plain.append(train())
            opened = time.perf_counter()
            with tt.record(f"{folder}/{turn}", model=model) as run:
                watched.append(train())
                run.flush()
                told.append(run.cost * (time.perf_counter() - opened) / steps * 1e6)
    more = median(w - p for w, p in zip(watched, plain, strict=True))
    step = f"a step of {median(plain) / 1000:.2g} ms"
    harness.row(f"{step}: what watching takes", more, None, unit="us")
    harness.row(f"{step}: what the run says", median(told), None, unit="us")
    harness.row(f"{step}: the one over the other", more / median(told), None)


for width, batch, steps in ((32, 8, 1000), (1024, 64, 200)):
    measure(width, batch, steps)
