"""`tensortap show`: what it says besides its tree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from commands import tensortap

import tensortap as tt


def record_layers(path: Path, factor: float, odd: int = -1) -> None:
    with tt.record(path) as run:
        for step in range(3):
            for layer in range(8):
                size = factor**layer * (1000 if layer == odd else 1) * (step + 1)
                run.tensor(f"activation/h.{layer}.mlp", np.full((4, 8), size, np.float32))
            run.step()


def test_show_says_what_folding_hides(tmp_path: Path) -> None:
    record_layers(tmp_path / "grows", 2)
    record_layers(tmp_path / "odd", 1, odd=5)
    record_layers(tmp_path / "plain", 1.1)
    record_layers(tmp_path / "shrinks", 0.5)
    said = {
        name: tensortap("show", name, folder=tmp_path).stdout
        for name in ("grows", "odd", "plain", "shrinks")
    }
    first, last, odd = (f"activation/h.{layer}.mlp" for layer in (0, 7, 5))
    assert f"folded: the rms grows from 3 in {first} to 384 in {last} (128 times)" in said["grows"]
    assert f"folded: the rms of {odd} is 3000, that of its 7 siblings about 3" in said["odd"]
    assert "(1/128)" in said["shrinks"]
    assert "folded" not in said["plain"]
    assert "--all shows every layer" in said["odd"]
    assert "folded" not in tensortap("show", "odd", "--all", folder=tmp_path).stdout
