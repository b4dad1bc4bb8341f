"""Save tensors from inside a model, and draw which module calls which.

    python examples/spy_files.py [FOLDER]

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

from tensortap.spy import CallTracer, DebugContext, TensorSaver, spy_save


class Head(nn.Module):
    """One attention head, which offers its scores."""

    def __init__(self, width: int = 8) -> None:
        """Create the projections."""
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the head looks at."""
        scores = (self.query(x) @ self.key(x).mT).softmax(-1)
        spy_save("scores", scores, self)  # outside of a context: nothing
        return scores @ self.value(x)


torch.manual_seed(0)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "saved")
model = nn.Sequential(Head(), nn.LayerNorm(8), Head())
saver = TensorSaver(folder)
saver.register_modules(model, target_classes=(Head,))
tracer = CallTracer(folder)
tracer.register_hooks(model)

with DebugContext(saver, prefix="batch0"):
    model(torch.randn(2, 5, 8))

for path in sorted(folder.glob("*.pt")):
    print(path.name, tuple(torch.load(path).shape))
print(len(tracer.call_trace), "calls in", tracer.save_trace())
