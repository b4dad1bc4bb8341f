"""The end of `tensortap run`: nothing that happens to the package spoils a finished training."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")

TRAIN = textwrap.dedent("""
    import atexit, sys, torch
    def late():
        print("late:", *sorted(n for n in set(sys.modules) - before if n.startswith("tensortap")))
    atexit.register(late)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    before = set(sys.modules)
    print("trained")
    if "--raise" in sys.argv:
        raise ValueError("the end")
""")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(TRAIN)
    command = [str(Path(sys.executable).with_name("tensortap")), "run", "-o", "runs/r"]
    split = words.index("--") if "--" in words else len(words)
    words = (*words[:split], "train.py", *words[split + 1 :])
    return subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--health", "warn"),
        ("--black-box", "2"),
        ("--black-box", "2", "--", "--raise"),
        ("--", "--raise"),
    ],
    ids=" ".join,
)
def test_no_module_of_ours_is_imported_when_the_training_is_over(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == ("--raise" in words), done.stderr
    assert done.stdout.splitlines()[-1] == "late:"


VERSIONS = """
import sys
if "torch" in sys.argv:
    import torch
    torch.__version__ = "99.1.0"
if "python" in sys.argv:
    sys.version_info = (3, 99, 0)
import tensortap as tt
for folder in ("a", "b"):
    with tt.record(folder) as run:
        run.log("loss", 1.0)
print(tt.open("a").notes)
"""


@pytest.mark.parametrize(
    ("newer", "named"),
    [
        ("", []),
        ("torch", ["torch 99.1.0 (tested up to 2."]),
        ("python", ["Python 3.99.0 (tested up to 3."]),
    ],
)
def test_a_version_newer_than_any_tested_gets_one_line_at_the_start_of_a_run(
    tmp_path: Path, newer: str, named: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VERSIONS, newer], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2 * len(named)
    for text in named:
        assert text in lines[0]
        assert text in done.stdout
