"""Draw the pictures of the documentation.

    python docs/make_pictures.py

Runs the programs below and writes docs/pictures/*.png.  Needs torch, pygraphviz and
matplotlib.
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
    check = ROOT / "docs" / "make_coordinate_check.py"
    subprocess.run([sys.executable, check], check=True, env=environment)


if __name__ == "__main__":
    main()
