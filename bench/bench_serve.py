"""`tensortap serve`: the first answer about a large run, a tick of a growing one, and what a page
that is open costs a training.

    python bench/bench_serve.py [FOLDER]     FOLDER: where the large run is, or is to be made

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import harness
import numpy as np
import torch
from large_run import make
from playwright.sync_api import sync_playwright

import tensortap as tt

PROGRAM = Path(sys.executable).parent / "tensortap"
SITES = 200  # of the run that grows
TICKS = 12


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder; give the printed address."""
    command = [str(PROGRAM), "serve", str(folder), "--port", "0"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    yield next(line.strip() for line in child.stdout if line.startswith("http://"))
    child.terminate()
    child.wait()


def fetch(address: str) -> float:
    """Return how long an answer takes, in ms."""
    start = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        answer.read()
    return (time.perf_counter() - start) * 1000


def measure_first(large: Path) -> None:
    """Each time with a new server: nothing is in its memory."""
    taken = []
    for _ in range(5):
        with serve(large) as address:
            page = fetch(address)
            facts = fetch(f"{address}block?name=facts")
            curves = fetch(f"{address}data?add=0/numbers/value")
            taken.append((page, facts, curves, fetch(f"{address}data?add=0/tensors/rms")))
    names = ("first answer", "its findings", "its curves", "its map")
    for name, values, bar in zip(
        names, zip(*taken, strict=True), (100, None, None, None), strict=True
    ):
        what = f"tensortap serve, 5 000 sites x 2 000 steps: {name}"
        harness.row(what, median(values), bar, unit="ms", at_most=True)


def ticks(browser: Any, folder: Path, steps: int) -> float:
    """Return the time that a tick takes, in ms: request, answer and drawing."""
    x = tt.stats(np.arange(8, dtype=np.float32))
    names = [f"activation/layers.{i // 4}.part{i % 4}" for i in range(SITES)]
    with tt.record(folder) as run, serve(folder) as address:

        def add() -> None:
            run.log("loss", 1.0)
            for name in names:
                run.tensor(name, x)
            run.step()

        for _ in range(steps):
            add()
        run.flush()
        tab = browser.new_page()
        tab.goto(address)
        tab.wait_for_selector("html[data-ready=true]", state="attached", timeout=60000)
        taken: list[float] = []
        end, before = time.monotonic() + 4 * TICKS, None
        while len(taken) < TICKS and time.monotonic() < end:
            for _ in range(3):
                add()
            time.sleep(0.1)
            now = tab.evaluate("document.documentElement.dataset.tick")
            if now != before and now is not None:
                taken.append(float(now))
            before = now
        tab.close()
    return median(taken)


def measure_training(browser: Any, folder: Path) -> float:
    """Return the time of a step with the page open, relative to the time without."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(512, 512) for _ in range(6)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.randn(64, 512)
    ratios = []
    with tt.record(folder, model=model) as run, serve(folder) as address:
        tab = browser.new_page()

        def block() -> float:
            taken = []
            end = time.monotonic() + 3
            while time.monotonic() < end:
                start = time.perf_counter()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log("train/loss", loss.item())
                taken.append(time.perf_counter() - start)
            return median(taken)

        block()
        for turn in range(8):
            pair = {}
            for is_open in (True, False) if turn % 2 else (False, True):
                tab.goto(address if is_open else "about:blank")
                if is_open:
                    tab.wait_for_selector("html[data-ready=true]", state="attached")
                pair[is_open] = block()
            ratios.append(pair[True] / pair[False])
    return median(ratios)


def main(folder: Path) -> None:
    """Measure everything."""
    large = folder / "large"
    if not large.exists():
        make(large, 5000, 2000)
    measure_first(large)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for steps in (500, 20000):
            taken = ticks(chromium, folder / f"grows{steps}", steps)
            what = f"a tick of a growing run of {SITES} sites, after {steps} steps: server and page"
            harness.row(what, taken, 50, unit="ms", at_most=True)
        ratio = measure_training(chromium, folder / "training")
        what = "a step of a training with its page open / without"
        harness.row(what, ratio, 1.03, at_most=True)
        chromium.close()


if len(sys.argv) > 1:
    main(Path(sys.argv[1]))
else:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as where:
        main(Path(where))
