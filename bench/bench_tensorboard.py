"""The same numbers in our page and in TensorBoard: until something is seen, in the same browser.

`tensortap export --to tensorboard` writes the numbers for TensorBoard: 15 statistics for each site,
so that 823 sites are 12 345 tags.  TensorBoard's own start does not count.  Each page is opened in
a new browser; the programs take turns.  Ours has its verdict in the first content; what TensorBoard
paints first is its frame, without a number.

    python bench/bench_tensorboard.py [SITES STEPS]

SPDX-License-Identifier: Apache-2.0
"""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import harness
from large_run import make
from seen import FIRST, seen

PROGRAM = Path(sys.executable).parent / "tensortap"
SIZES = ((200, 50, 5), (823, 50, 2))  # sites, steps, turns
OURS = {"the verdict": "#findings li", "a curve": "#curves .uplot"}
THEIRS = {"a curve": "scalar-card line-chart"}


@contextmanager
def tensorboard(folder: Path) -> Iterator[str]:
    """Yield the address of TensorBoard when it listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder)]
    child = subprocess.Popen(
        [*command, "--port", str(port), "--load_fast", "false"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/"
    finally:
        child.terminate()
        child.wait()


@contextmanager
def served(run: Path) -> Iterator[str]:
    """Yield the address that `tensortap serve` prints."""
    child = subprocess.Popen(
        [str(PROGRAM), "serve", str(run), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        yield next(line.strip() for line in child.stdout if line.startswith("http://"))
    finally:
        child.terminate()
        child.wait()


def measure(folder: Path, sites: int, steps: int, turns: int) -> None:
    """Measure all three, in turns."""
    run, exported, page = folder / "run", folder / "exported", folder / "page.html"
    make(run, sites, steps)
    start = time.perf_counter()
    run_ours("export", run, "--to", "tensorboard", "-o", exported)
    export = time.perf_counter() - start
    run_ours("report", run, "-o", page)
    file, live, other = [], [], []
    for _ in range(turns):
        file.append(seen(page.as_uri(), OURS))
        with served(run) as address:
            live.append(seen(address, OURS))
        with tensorboard(exported) as address:
            other.append(seen(address, THEIRS))
    what = f"{sites} sites x {steps} steps"
    harness.row(f"{what}: tensortap export --to tensorboard", export, None, unit="s")
    for name, taken in (("report", file), ("serve", live), ("TensorBoard", other)):
        for event in taken[0]:
            value = median(one[event] for one in taken)
            harness.row(f"{what} in Chromium, {name}: until {event}", value, None, unit="ms")
    for name, taken in (("report", file), ("serve", live)):
        for event in (FIRST, "a curve"):
            ratio = median(b[event] / a[event] for a, b in zip(taken, other, strict=True))
            is_bar = name == "report" and event == FIRST
            row = f"{what} in Chromium, TensorBoard / {name}: until {event}"
            harness.row(row, ratio, 10 if is_bar else None, unit="x")


def run_ours(*words: object) -> None:
    """Run our program."""
    subprocess.run([str(PROGRAM), *map(str, words)], check=True, stdout=subprocess.DEVNULL)


words = [int(word) for word in sys.argv[1:3]]
for size in ((*words, 3),) if words else SIZES:
    with tempfile.TemporaryDirectory() as where:
        measure(Path(where), *size)
