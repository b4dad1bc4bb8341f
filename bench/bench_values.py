"""Tensors of 1 MB, all different: against plain write() and torch.save; and unchanged ones.

One run and one plain file stay open; the three take turns, so that a busy disk
slows all of them.
"""

import os
import shutil
import tempfile
from pathlib import Path
from statistics import median

import harness
import torch

import tensortap as tt

COUNT, TURNS = 60, 11
torch.set_num_threads(1)
x = torch.randn(1 << 18)
where = Path(tempfile.mkdtemp(dir=os.environ.get("TENSORTAP_BENCH_DIR")))
changes = iter(range(1 << 40))
run = tt.record(where / "run", keep="value")
plain_file = open(where / "plain", "wb", buffering=0)  # noqa: SIM115


def change() -> None:
    i = next(changes)
    x[i % 1000] = i


def ours() -> None:
    for _ in range(COUNT):
        change()
        run.tensor("x", x)
        run.step()
    run.flush()


def plain() -> None:
    for _ in range(COUNT):
        change()
        plain_file.write(x.numpy())


def saved() -> None:
    for _ in range(COUNT):
        change()
        torch.save(x, where / f"{next(changes)}.pt")


of_plain, of_saved = [], []
for turn in range(TURNS + 1):
    a, b, c = (harness.seconds(call) for call in (ours, plain, saved))
    files = list(where.glob("*.pt"))
    size = files[0].stat().st_size
    for file in files:
        file.unlink()
    if turn > 0:  # the first warms up
        of_plain.append(b / a)
        of_saved.append(c / a)
run.close()
harness.row("values of 1 MB: speed as a part of plain write()", median(of_plain), 0.8)
harness.row("values of 1 MB: speed in torch.save's", median(of_saved), 2)

with tt.record(where / "same", keep="value") as run:
    for _ in range(COUNT):
        run.tensor("x", x)
        run.step()
used = (where / "same" / "rank0.tap").stat().st_size
what = f"values unchanged for {COUNT} steps: disk of torch.save in ours"
harness.row(what, COUNT * size / used, 20)
shutil.rmtree(where)
