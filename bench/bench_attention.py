"""attention of 4 heads, 2048 long, against softmax and entropy by torch operations."""

import harness
import torch

from tensortap import _core

torch.set_num_threads(1)
heads, length, dim = 4, 2048, 64
q, k = torch.randn(heads, length, dim), torch.randn(heads, length, dim)
hidden = torch.ones(length, length, dtype=torch.bool).triu(1)


def by_torch() -> None:
    logits = (q @ k.mT * dim**-0.5).masked_fill(hidden, -torch.inf)
    weights = logits.softmax(-1)
    -(weights * weights.clamp_min(1e-30).log()).sum(-1), logits.amax(-1), weights[..., 0]


def by_us() -> None:
    _core.attention(q, k, is_causal=True)


ours, theirs = harness.times(by_us, by_torch, turns=9)
harness.row("attention, T = 2048, causal, times faster than torch", theirs / ours, 3, unit="x")
harness.row(
    "attention, T = 2048, peak extra memory",
    harness.peak_extra(by_us) / 2**20,
    8,
    unit="MB",
    at_most=True,
)
