"""A compiled 4-layer transformer with all modules watched, over the same one unwatched.

Two models of one class, so that each has its own graph.  Steps of both alternate, each goes first
as often as the other, and processor time is measured: on a busy machine the longer step waits more.
"""

import tempfile
import time
from statistics import median

import harness
import torch
from torch import nn

import tensortap as tt

torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(256), nn.Linear(256, 768), nn.Linear(256, 256)
        self.norm2, self.up, self.down = (
            nn.LayerNorm(256),
            nn.Linear(256, 1024),
            nn.Linear(1024, 256),
        )
        self.act = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, t, d))
        return x + self.down(self.act(self.up(self.norm2(x))))


x = torch.randn(8, 64, 256)


class Training:
    """A compiled model and its optimizer."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(Block() for _ in range(4)))
        self.call = torch.compile(self.model, fullgraph=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4)

    def step(self) -> float:
        start = time.thread_time_ns()
        self.call(x).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(time.thread_time_ns() - start)


def measure(what: str, bar: float, every: int, turns: int) -> None:
    plain, watched = Training(), Training()
    with tempfile.TemporaryDirectory() as folder, tt.record(f"{folder}/run", every=every):
        tt.watch(watched.model, grads=None)
        for _ in range(4):
            plain.step(), watched.step()
        ratios = []
        for turn in range(turns):
            if turn % 2 == 0:
                first = plain.step()
                ratios.append(watched.step() / first)
            else:
                first = watched.step()
                ratios.append(first / plain.step())
    harness.row(what, median(ratios), bar, unit="x", at_most=True)


measure("compiled transformer, every module every step, over unwatched", 1.03, 1, 80)
measure("the same with every=1000, between recorded steps", 1.005, 1000, 200)
