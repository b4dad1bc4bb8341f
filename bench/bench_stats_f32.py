"""stats of 64 MB of f32, against a plain sum and against torch's own reductions."""

import harness
import torch

from tensortap import _core

torch.set_num_threads(1)
x = torch.randn(16 << 20)


def by_torch() -> None:
    x.mean(), x.std(), x.min(), x.max(), x.norm(), x.isnan().sum(), x.isinf().sum()


harness.row(
    "stats, 64 MB f32, of read speed", harness.of_read_speed(lambda: _core.stats(x), x), 0.9
)
ours, theirs = harness.times(lambda: _core.stats(x), by_torch, turns=9)
harness.row("stats, 64 MB f32, times faster than torch", theirs / ours, 40, unit="x")

x[torch.randperm(x.numel())[: x.numel() // 100]] = torch.nan
harness.row(
    "stats, 64 MB f32, 1 % NaN, of read speed",
    harness.of_read_speed(lambda: _core.stats(x), x),
    0.4,
)
