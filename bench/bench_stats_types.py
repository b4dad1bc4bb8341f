"""stats of other types and layouts, as a part of the read speed of their bytes."""

import harness
import torch

from tensortap import _core

torch.set_num_threads(1)
count = 16 << 20
wide = torch.randn(count)

for name, bar, tensor in (
    ("bf16", 0.6, wide.bfloat16()),
    ("f16", 0.6, wide.half()),
    ("f64", 0.9, wide.double()),
    ("i64 (token ids)", 0.9, torch.randint(0, 50_000, (count,))),
    ("i64 (beyond 2^40)", 0.9, torch.randint(-(2**41), 2**41, (count,))),
    ("i64 (all 64 bits)", 0.9, torch.randint(-(2**63), 2**63 - 1, (count,))),
):
    speed = harness.of_read_speed(lambda tensor=tensor: _core.stats(tensor), tensor)
    harness.row(f"stats, {count >> 20} M {name}, of read speed", speed, bar)

matrix = wide.view(4096, 4096)
for name, view in (
    ("transposed", matrix.T),
    ("sliced (all but the edges)", matrix[8:-8, 8:-8]),
    ("sliced (every second column)", matrix[:, ::2]),
    ("permuted (3-D)", wide.view(256, 256, 256).permute(1, 2, 0)),
):
    speed = harness.of_read_speed(lambda view=view: _core.stats(view), view)
    harness.row(f"stats, 64 MB f32 {name}, of read speed", speed, 0.3)
