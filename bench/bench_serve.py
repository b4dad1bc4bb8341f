"""`tensortap serve`: the first answer about a large run, a tick of a growing one, and what a page
that is open costs a training.

    python bench/bench_serve.py [FOLDER]     FOLDER: where the large run is, or is to be made

SPDX-License-Identifier: Apache-2.0
"""

import itertools
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import harness
import numpy as np
import torch
from large_run import make
from seen import chromium

import tensortap as tt

PROGRAM = Path(sys.executable).parent / "tensortap"
TICKS = 8  # windows
WINDOW = 4  # seconds
TURN = 2.5  # seconds
HIDE = "is => Object.defineProperty(document, 'hidden', {value: is, configurable: true})"
TURNS = 30


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


def names_of(sites: int, *, is_folded: bool) -> list[str]:
    """Return names of layers that repeat, which a page shows as four rows, or that do not."""
    if is_folded:
        return [f"activation/layers.{i // 4}.part{i % 4}" for i in range(sites)]
    letters = [chr(97 + i) for i in range(26)]
    words = itertools.product(letters, repeat=3)
    return [f"activation/{''.join(word)}" for word in itertools.islice(words, sites)]


def ticks(browser: Any, folder: Path, names: list[str], steps: int, pause: float) -> float:
    """Return the processor time that a tick takes in server and page, in ms.

    The run has so many steps when the page is opened, and grows by one after each pause.
    """
    x = tt.stats(np.arange(8, dtype=np.float32))
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
            until = time.monotonic() + WINDOW
            while time.monotonic() < until:
                add()
                time.sleep(pause)
            taken.append((used() - before) / (int(tab.evaluate(number)) - first))
        tab.close()
    return median(taken)


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Run this thread, and what it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    yield
    os.sched_setaffinity(0, before)


def measure_training(folder: Path) -> None:
    """Compare steps of a training while its page is open with steps while it is hidden.

    Server and browser have one core, the training and the thread that writes its run the other.
    Windows of both kinds alternate; a page that is hidden asks for nothing.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6)))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.randn(64, 512)
    ours, other = sorted(os.sched_getaffinity(0))[:2]
    with on_core(ours), tt.record(folder, model=model) as run:

        def step() -> float:
            start = time.process_time()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log("train/loss", loss.item())
            return time.process_time() - start

        def window(state: str) -> float:
            tab.evaluate(HIDE, state == "hidden")
            taken = []
            until = time.monotonic() + TURN
            while time.monotonic() < until:
                taken.append(step())
            return mean(taken)

        step()
        with on_core(other):
            serving, browsing = serve(folder), chromium()
            server, tab = serving.__enter__(), browsing.__enter__().new_page()
            tab.goto(server.address)
            tab.wait_for_selector("html[data-ready=true]", state="attached")
        window("shown")
        used = {"shown": 0.0, "hidden": 0.0}
        ratios = []
        for turn in range(TURNS):
            taken = {}
            for state in ("shown", "hidden") if turn % 2 else ("hidden", "shown"):
                before = server.used()
                taken[state] = window(state)
                used[state] += server.used() - before
            ratios.append(taken["shown"] / taken["hidden"])
        browsing.__exit__(None, None, None)
        serving.__exit__(None, None, None)
    assert used["hidden"] < used["shown"] / 4, f"the page was not hidden: {used}"
    what = "processor time of a training step, with its page open / hidden"
    harness.row(f"{what}, mean of {TURNS} turns", mean(ratios), 1.02, at_most=True)
    error = stdev(ratios) / len(ratios) ** 0.5
    harness.row("... the standard error of that ratio", error, None)


def main(folder: Path) -> None:
    """Measure everything."""
    large = folder / "large"
    if not large.exists():
        make(large, 5000, 2000)
    measure_first(large)
    with chromium() as browser:
        for sites, steps, pause, is_folded in (
            (200, 500, 0.05, True),
            (200, 5000, 0.05, True),
            (200, 50000, 0.05, True),
            (5000, 500, 1, True),
            (5000, 500, 1, False),
        ):
            names = names_of(sites, is_folded=is_folded)
            where = folder / f"grows{sites}x{steps}{'' if is_folded else '_unlike'}"
            taken = ticks(browser, where, names, steps, pause)
            what = f"a tick of a growing run of {sites} sites, after {steps} steps: server and page"
            what += "" if is_folded else ", no two alike"
            harness.row(what, taken, 50, unit="ms", at_most=True)
    measure_training(folder / "training")


if __name__ == "__main__" and len(sys.argv) > 1:
    main(Path(sys.argv[1]))
elif __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as where:
        main(Path(where))
