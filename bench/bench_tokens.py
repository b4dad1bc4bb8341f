"""Sketches of tokens: time in reads of the tensor, bytes, and how well distances are estimated."""

import harness
import numpy as np
import torch

from tensortap import _core

WIDTH, ROWS = 4096, 8192


def time_in_reads(x: torch.Tensor) -> float:
    """Return the time of the sketches over the time to read the tensor."""
    return 1 / harness.of_read_speed(lambda: _core._sketch(x), x)


x = torch.randn(ROWS, WIDTH)
harness.row("tokens, 128 MB of float32, in reads", time_in_reads(x), 1.5, at_most=True)
harness.row("tokens, 64 MB of bfloat16, in reads", time_in_reads(x.to(torch.bfloat16)), None)
small = torch.randn(1 << 18, 64)
harness.row("tokens, width 64, 64 MB of float32, in reads", time_in_reads(small), None)
harness.row("tokens, bytes a token and site", len(_core._sketch(x)) / ROWS, 72, at_most=True)


def estimate(change: torch.Tensor) -> np.ndarray:
    """Return the estimated distances over the true ones."""
    sums = np.frombuffer(_core._sketch(change), np.float32).reshape(-1, 17)[:, 1:]
    return np.linalg.norm(sums, axis=1) / change.norm(dim=1).numpy()


i = torch.arange(WIDTH)
phases = torch.rand(512, 1) * 7
changes = {
    "white": torch.randn(512, WIDTH),
    "one feature": torch.eye(WIDTH)[torch.randint(WIDTH, (512,))],
    "constant": torch.ones(512, WIDTH),
    "one value a head": torch.randn(512, WIDTH // 64).repeat_interleave(64, 1),
    "smooth": torch.cos(i / WIDTH * 6.2832 * torch.randint(1, 5, (512, 1)) + phases),
}
for name, change in changes.items():
    low, middle, high = np.quantile(estimate(change), (0.01, 0.5, 0.99))
    print(f"  estimate of a {name} change: {middle:.2f} ({low:.2f} to {high:.2f}) of the truth")
