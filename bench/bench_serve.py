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


class Server:
    """A server that runs."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        """Read the printed address."""
        assert child.stdout is not None
        self.address = next(line.strip() for line in child.stdout if line.startswith("http://"))
        self._used = Path(f"/proc/{child.pid}/schedstat")

    def used(self) -> float:
        """Return the processor time that it has used, in ms: other programs do not count."""
        return int(self._used.read_text().split()[0]) / 1e6

    def fetch(self, path: str = "") -> float:
        """Return the processor time of an answer, in ms."""
        before = self.used()
        with urllib.request.urlopen(self.address + path) as answer:
            answer.read()
        return self.used() - before


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    """Serve a folder until the block ends."""
    command = [str(PROGRAM), "serve", str(folder), "--port", "0"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield Server(child)
    child.terminate()
    child.wait()


def measure_first(large: Path) -> None:
    """Each time with a new server: nothing is in its memory."""
    taken = []
    for _ in range(5):
        with serve(large) as server:
            parts = ["", "block?name=facts", "data?add=0/numbers/value", "data?add=0/tensors/rms"]
            taken.append([server.fetch(part) for part in parts])
    names = ("first answer", "then its findings", "then its curves", "then its map")
    for name, values, bar in zip(
        names, zip(*taken, strict=True), (100, None, None, None), strict=True
    ):
        what = f"tensortap serve, 5 000 sites x 2 000 steps: {name}"
        harness.row(what, median(values), bar, unit="ms", at_most=True)


def ticks(browser: Any, folder: Path, steps: int) -> float:
    """Return the processor time that a tick takes in server and page, in ms."""
    x = tt.stats(np.arange(8, dtype=np.float32))
    names = [f"activation/layers.{i // 4}.part{i % 4}" for i in range(SITES)]
    with tt.record(folder) as run, serve(folder) as server:

        def add() -> None:
            run.log("loss", 1.0)
            for name in names:
                run.tensor(name, x)
            run.step()

        for _ in range(steps):
            add()
        run.flush()
        tab = browser.new_page()
        meter = tab.context.new_cdp_session(tab)
        meter.send("Performance.enable", {"timeDomain": "threadTicks"})

        def used() -> float:
            found = meter.send("Performance.getMetrics")["metrics"]
            page = next(one["value"] for one in found if one["name"] == "TaskDuration")
            return server.used() + page * 1000

        tab.goto(server.address)
        tab.wait_for_selector("html[data-ready=true]", state="attached", timeout=60000)
        taken: list[float] = []
        number = "document.documentElement.dataset.ticks"
        while len(taken) < TICKS:
            before, first = used(), int(tab.evaluate(number) or 0)
            while int(tab.evaluate(number) or 0) == first:
                add()
                time.sleep(0.05)
            taken.append((used() - before) / (int(tab.evaluate(number)) - first))
        tab.close()
    return median(taken)


def measure_training(browser: Any, folder: Path) -> float:
    """Return the processor time of a step with the page open, relative to that without."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(512, 512) for _ in range(6)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.randn(64, 512)
    ratios = []
    with tt.record(folder, model=model) as run, serve(folder) as server:
        tab = browser.new_page()

        def block() -> float:
            taken = []
            end = time.monotonic() + 3
            while time.monotonic() < end:
                start = time.thread_time()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log("train/loss", loss.item())
                taken.append(time.thread_time() - start)
            return median(taken)

        block()
        for turn in range(8):
            pair = {}
            for is_open in (True, False) if turn % 2 else (False, True):
                tab.goto(server.address if is_open else "about:blank")
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
        what = "processor time of a training step, with its page open / without"
        harness.row(what, ratio, 1.05, at_most=True)
        chromium.close()


if len(sys.argv) > 1:
    main(Path(sys.argv[1]))
else:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as where:
        main(Path(where))
