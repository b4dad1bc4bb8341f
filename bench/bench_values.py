"""Tensors of 1 MB, all different: against plain write() and torch.save; and unchanged ones."""

import os
import tempfile
import time
from pathlib import Path
from statistics import median

import harness
import torch

import tensortap as tt

COUNT = 200
torch.set_num_threads(1)
x = torch.randn(1 << 18)
where = Path(tempfile.mkdtemp(dir=os.environ.get("TENSORTAP_BENCH_DIR")))


def change(i: int) -> None:
    x[i % 1000] = i


def ours(turn: int) -> float:
    start = time.perf_counter()
    with tt.record(where / f"run{turn}", keep="value") as run:
        for i in range(COUNT):
            change(i + turn * COUNT)
            run.tensor("x", x)
            run.step()
    return time.perf_counter() - start


def plain(turn: int) -> float:
    start = time.perf_counter()
    with open(where / f"plain{turn}", "wb", buffering=0) as file:
        for i in range(COUNT):
            change(i + turn * COUNT)
            file.write(x.numpy())
    return time.perf_counter() - start


def saved(turn: int) -> float:
    start = time.perf_counter()
    (where / f"saved{turn}").mkdir()
    for i in range(COUNT):
        change(i + turn * COUNT)
        torch.save(x, where / f"saved{turn}" / f"{i}.pt")
    return time.perf_counter() - start


def clean(turn: int) -> None:
    for path in where.rglob("*"):
        if path.is_file():
            path.unlink()


ratios: list[tuple[float, float]] = []
for turn in range(6):
    a, b, c = ours(turn), plain(turn), saved(turn)
    clean(turn)
    if turn > 0:  # the first warms up
        ratios.append((b / a, c / a))
harness.row("values of 1 MB: speed as a part of plain write()", median(r[0] for r in ratios), 0.8)
harness.row("values of 1 MB: speed in torch.save's", median(r[1] for r in ratios), 2)

with tt.record(where / "same", keep="value") as run:
    for _ in range(COUNT):
        run.tensor("x", x)
        run.step()
torch.save(x, where / "one.pt")
size = (where / "same" / "rank0.tap").stat().st_size
harness.row(
    "values unchanged for 200 steps: disk of torch.save in ours",
    COUNT * (where / "one.pt").stat().st_size / size,
    20,
)
clean(0)
