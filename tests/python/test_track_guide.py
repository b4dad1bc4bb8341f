"""The story in docs/guide/track.md goes as it is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "track.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}.*?\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    first = "import tensortap\n"  # where the .pth file is not installed
    (folder / "sitecustomize.py").write_text(first if environment else "")
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done


def masked(text: str) -> list[str]:
    return re.sub(r"\d+\.\d{4} s$", "T s", text, flags=re.M).splitlines()


def test_the_story_of_the_guide_is_true(tmp_path: Path) -> None:
    clips, train = blocks("python")[:2]
    error, tree, repaired = blocks("text")
    (tmp_path / "clips.py").write_text(clips)
    (tmp_path / "train.py").write_text(train)
    said = run(tmp_path).stderr.splitlines()[-1:]
    assert [line.replace(" addmm:", "") for line in said] == error.splitlines()  # torch 2.15 has it
    (command,) = [block for block in blocks("sh") if "TENSORTAP_TRACK" in block]
    assert command == "TENSORTAP_TRACK=clips:load:clip python train.py\n"
    assert masked(run(tmp_path, TENSORTAP_TRACK="clips:load:clip").stdout) == masked(tree)
    (tmp_path / "clips.py").write_text(
        clips.replace("clip[:, :, left : left + side]", "clip[:, :, :, left : left + side]")
    )
    again = run(tmp_path, TENSORTAP_TRACK="clips:load:clip").stdout.splitlines()
    assert [line for line in again if "in cropped" in line] + again[-1:] == repaired.splitlines()
    assert again[-1] == "torch.Size([8, 10])"
