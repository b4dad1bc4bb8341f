"""Tensors of 1 MB, all different: against plain write() and torch.save; and unchanged ones.

One run and one plain file stay open; the three take turns, so that a busy disk
slows all of them.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import harness
import torch

import tensortap as tt

COUNT, TURNS = 60, 21
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


def on_the_wall(call: Callable[[], None]) -> float:
    start = time.perf_counter()  # the writer is another thread, and its time counts
    call()
    return time.perf_counter() - start


best = [1e9, 1e9, 1e9]  # not the median: ours needs two cores, and they may be taken
for turn in range(TURNS + 1):
    taken = [on_the_wall(call) for call in (ours, plain, saved)]
    files = list(where.glob("*.pt"))
    size = files[0].stat().st_size
    for file in files:
        file.unlink()
    if turn > 0:  # the first warms up
        best = [min(pair) for pair in zip(best, taken, strict=True)]
run.close()
harness.row("values of 1 MB: speed as a part of plain write()", best[1] / best[0], 0.8)
harness.row("values of 1 MB: speed in torch.save's", best[2] / best[0], 2)

with tt.record(where / "same", keep="value") as run:
    for _ in range(COUNT):
        run.tensor("x", x)
        run.step()
used = (where / "same" / "rank0.tap").stat().st_size
what = f"values unchanged for {COUNT} steps: disk of torch.save in ours"
harness.row(what, COUNT * size / used, 20)
shutil.rmtree(where)
