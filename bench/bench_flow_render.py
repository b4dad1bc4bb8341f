"""How long a chart takes from the first line to the file."""

import os
import tempfile
from pathlib import Path

import harness
import torch

from tensortap import flow


def program(nodes: int) -> None:
    """Make *nodes* changes, as a training loop does: a few inputs, chains, one weight."""
    w = torch.randn(8, 8)
    for _ in range(nodes // 4 + 1):
        x = torch.randn(4, 8)
        h = x @ w
        y = torch.relu(h)
        w = w - 0.01 * (x.t() @ y)


def chart(nodes: int, name: str) -> None:
    flow.on(show=False, save=True, save_dir=FOLDER, max_nodes=nodes)
    program(nodes)
    output = flow.off(filename=name)
    assert output is not None
    assert output.node_count == nodes


torch.set_num_threads(1)
os.chdir(Path(__file__).parent)
FOLDER = tempfile.mkdtemp()
for nodes, name, bar in ((12, "a.png", 0.6), (50, "b.png", 1.5), (200, "c.svg", 1.5)):
    (taken,) = harness.times(lambda: chart(nodes, name), turns=5)  # noqa: B023
    what = f"flow: capture and render {nodes} nodes to {Path(name).suffix[1:].upper()}"
    harness.row(what, taken, bar, unit="s", at_most=True)
