"""Draw the pictures of the documentation.

    python docs/make_pictures.py

Runs the programs below and writes docs/pictures/*.png.  Needs torch, pygraphviz and
matplotlib (pip install matplotlib).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"

BLOCK = """\
import torch
from tensortap import flow

torch.manual_seed(0)
flow.on(show=False, save=True, save_dir=".")
x = torch.randn(6, 6)
w = torch.randn(6, 6)
y = x @ w
z = torch.relu(y)
flow.off(filename="flow_block.png")
"""


GRAPH = """\
import torch
from torch import nn

import tensortap as tt


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        weights = torch.softmax(self.q(x) @ self.k(x).mT / 8, -1)
        return self.out(weights @ self.v(x))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn = Attention(width)
        up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.ModuleDict({"up": up, "down": down})

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp["down"](torch.relu(self.mlp["up"](x)))


class Model(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(100, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(48))
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


torch.manual_seed(0)
model = Model()
with torch.no_grad():
    model.layers[30].mlp["down"].weight[3, 3] = torch.nan
with tt.record("run", model=model) as run:
    model(torch.randint(100, (2, 16)))
    run.step()
"""


def main() -> None:
    """Write every picture."""
    PICTURES.mkdir(exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    example = ROOT / "examples" / "flow_chart.py"
    picture = PICTURES / "flow.png"
    subprocess.run([sys.executable, example, picture], check=True, env=environment)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "block.py").write_text(BLOCK)
        subprocess.run([sys.executable, "block.py"], check=True, cwd=folder, env=environment)
        (Path(folder) / "flow_block.png").replace(PICTURES / "flow_block.png")
        (Path(folder) / "graph.py").write_text(GRAPH)
        subprocess.run([sys.executable, "graph.py"], check=True, cwd=folder, env=environment)
        program = Path(sys.executable).parent / "tensortap"
        options = ("--color", "nan", "--dpi", "90", "--out", str(PICTURES / "spy_graph.png"))
        subprocess.run([program, "graph", "run", *options], check=True, cwd=folder, env=environment)
    check = ROOT / "docs" / "make_coordinate_check.py"
    subprocess.run([sys.executable, check], check=True, env=environment)


if __name__ == "__main__":
    main()
