"""A page of 20 runs of 200 sites and 10 000 steps each: how it opens, and a tick while one grows.

    python bench/bench_overlay.py [FOLDER]     FOLDER: where the runs are, or are to be made

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import bench_serve
import harness
import numpy as np
from large_run import make
from seen import chromium, seen

import tensortap as tt

PROGRAM = Path(sys.executable).parent / "tensortap"
RUNS, SITES, STEPS, PAINTS, TICKS, WINDOW = 20, 200, 10_000, 5, 6, 4


def make_runs(folder: Path) -> list[str]:
    """Write one run and give it twenty names: reading each takes as long as if they differed."""
    names = [f"run{i}" for i in range(RUNS)]
    if not (folder / names[0]).exists():
        make(folder / names[0], SITES, STEPS)
    for name in names[1:]:
        if not (folder / name).exists():
            (folder / name).mkdir()
            os.link(folder / names[0] / "rank0.tap", folder / name / "rank0.tap")
    return names


def measure_file(folder: Path, names: list[str]) -> None:
    """Write the page, and open it in new browsers."""
    page = folder / "many.html"
    start = time.perf_counter()
    subprocess.run(
        [PROGRAM, "report", *names, "-o", page], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    what = f"{RUNS} runs of {SITES} sites x {STEPS} steps"
    harness.row(f"tensortap report, {what}", time.perf_counter() - start, None, unit="s")
    harness.row(f"page of {what}: its size", page.stat().st_size / 1e6, None, unit="MB")
    wanted = {"runs": "#findings li", "curves": "#curves .uplot"}
    shown = [seen(page.as_uri(), wanted) for _ in range(PAINTS)]
    for name, bar in (("first content", 1000), ("runs", 1000), ("curves", None)):
        row = f"page of {what} in Chromium: {'its verdicts' if name == 'runs' else name}"
        harness.row(row, median(one[name] for one in shown), bar, unit="ms", at_most=True)


def measure_served(folder: Path, names: list[str]) -> None:
    """Open the served page, whose last run grows, and take the processor time of its ticks."""
    x = tt.stats(np.arange(8, dtype=np.float32))
    what = f"served page of {RUNS} runs of {SITES} sites x {STEPS} steps"
    with tt.record(folder / "grows") as run, bench_serve.serve(folder) as server:

        def add() -> None:
            run.log("loss", 1.0)
            for site in range(SITES):
                run.tensor(f"activation/{site}", x)
            run.step()

        for _ in range(500):
            add()
        run.flush()
        chosen = [*names[1:], "grows"]
        query = urlencode([("with" if i else "of", name) for i, name in enumerate(chosen)])
        address = f"{server.address}?{query}"
        found = seen(address, {"curves": "#curves .uplot"})
        harness.row(f"{what}: first paint", found["first content"], 1000, unit="ms", at_most=True)
        harness.row(f"{what}: curves", found["curves"], None, unit="ms")
        with chromium() as browser:
            tab = browser.new_page()
            meter = tab.context.new_cdp_session(tab)
            meter.send("Performance.enable", {"timeDomain": "threadTicks"})

            def used() -> float:
                got = meter.send("Performance.getMetrics")["metrics"]
                page = next(one["value"] for one in got if one["name"] == "TaskDuration")
                return server.used() + page * 1000

            tab.goto(address)
            tab.wait_for_selector("html[data-ready=true]", state="attached", timeout=300_000)
            number = "document.documentElement.dataset.ticks"
            taken: list[float] = []
            while len(taken) < TICKS:
                before, first = used(), int(tab.evaluate(number) or 0)
                until = time.monotonic() + WINDOW
                while time.monotonic() < until:
                    add()
                    time.sleep(0.05)
                count = int(tab.evaluate(number)) - first
                taken.append((used() - before) / max(count, 1))
        harness.row(f"{what}: a tick, server and page", median(taken), 50, unit="ms", at_most=True)


def main(folder: Path) -> None:
    """Measure both."""
    names = make_runs(folder)
    measure_file(folder, names)
    measure_served(folder, names)


if __name__ == "__main__" and len(sys.argv) > 1:
    main(Path(sys.argv[1]))
elif __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as where:
        main(Path(where))
