"""What a wheel must be able to do, in a system that has nothing else.

    python smoke_program.py PROGRAM [none] [numpy] [torch] [line]

PROGRAM is how to start the command.  `line`: the line source has to work on this Python.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

start = time.process_time()  # of the processor: the machine may be busy
import tensortap as tt  # noqa: E402

spent = time.process_time() - start

PROGRAM, WITH = sys.argv[1].split(), set(sys.argv[2:])


def train(run_path: Path) -> None:
    """Record three steps."""
    with tt.record(run_path) as run:
        for step in range(3):
            run.log("loss", 1 / (step + 1))
            if "numpy" in WITH:
                import numpy

                bad = math.nan if step == 2 else 1.0
                run.tensor("activation/fc", numpy.array([bad, step], numpy.float32))
            run.step()


def train_torch(run_path: Path) -> None:
    """Record a model that torch trains."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.record(run_path, model=model, optimizer=optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
    assert "activation/0" in tt.open(run_path).names()


def changes() -> list[str]:
    """Return what the line source saw of a small function."""
    import numpy

    from tensortap import track

    seen: list[str] = []
    track.log2file = seen.append

    @track.var_tracker("x")
    def work() -> None:
        x = numpy.zeros(3)
        x[0] = 1

    work()
    return seen


def command(*words: str, code: int = 0) -> str:
    """Return what the program prints; its exit code must be this one."""
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "run"
    train(path)
    assert [round(x, 3) for x in tt.open(path).series("loss")[1]] == [1, 0.5, 0.333]
    assert command("--version") == f"tensortap {tt.__version__}\n"
    assert "loss" in command("show", str(path))
    has_nan = "numpy" in WITH
    assert ("activation/fc" in command("nan", str(path), code=1 if has_nan else 0)) == has_nan
    command("report", str(path), "-o", f"{folder}/page.html")
    command("check", str(path))
    if "numpy" in WITH:
        import numpy

        assert tt.stats(numpy.arange(5.0)).mean == 2
    if "line" in WITH and "numpy" in WITH:
        changes()
    if "torch" in WITH:
        train_torch(Path(folder) / "torch")
print(f"{spent * 1000:.0f}")
