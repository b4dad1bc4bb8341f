"""Draw how the tensors of one attention head flow, line by line.

    python examples/flow_chart.py [FILE]

FILE defaults to flow.html; .png, .svg, .pdf, .dot and .json work too.  One weight is
infinite; follow the dark cells to see which values it affects.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import torch
except ModuleNotFoundError:
    sys.exit("this example needs torch")

from tensortap import flow


def main() -> None:
    """Capture one forward pass and write its chart."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    flow.lines(1, 10**6)  # this file, wherever it was started from
    flow.on(show=False, save=True, save_dir=".")
    x = torch.randn(5, 4)
    w_q = torch.randn(4, 4)
    w_k = torch.randn(4, 4)
    w_v = torch.randn(4, 4)
    w_v[1, 2] = torch.inf
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    scores = q @ k.T / 4**0.5
    weights = scores.softmax(-1)
    mixed = weights @ v
    loss = (x - mixed).square().mean(1)
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "flow.html")
    output = flow.off(filename=target)
    assert output is not None
    print(
        f"{output.node_count} tensors in {output.saved_path}; {loss.isnan().sum()} losses are NaN"
    )


if __name__ == "__main__":
    main()
