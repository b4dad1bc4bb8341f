"""The page of a run of 5 000 sites and 2 000 steps: time, memory, size, and how it opens.

    python bench/bench_page.py [FOLDER]     FOLDER: where such a run is, or is to be made

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import harness
from large_run import make
from playwright.sync_api import sync_playwright

PROGRAM = Path(sys.executable).parent / "tensortap"
PAINTS = 5
SCRUB = """() => {
    const slider = byId('step'), times = [];
    for (let i = 0; i < 40; i++) {
        const start = performance.now();
        slider.value = String((i * 37) % (Number(slider.max) + 1));
        slider.dispatchEvent(new Event('input'));
        document.body.getBoundingClientRect(); /* with the layout */
        times.push(performance.now() - start);
    }
    return times.sort((a, b) => a - b)[20];
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def write(run: Path, page: Path) -> tuple[float, float]:
    """Write the page; return the processor time in s and the largest memory in MB."""
    child = subprocess.Popen([PROGRAM, "report", run, "-o", page], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def open_page(browser: Any, page: Path) -> tuple[float, float]:
    """Return the time of the first paint and of a step of the slider, in ms."""
    tab = browser.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=true]", state="attached", timeout=60000)
    paint, scrub = tab.evaluate(PAINT), tab.evaluate(SCRUB)
    assert "NaN" in tab.inner_text("#findings")
    tab.close()
    return paint, scrub


def main(folder: Path) -> None:
    """Measure everything."""
    large, small = folder / "large", folder / "small"
    for run, sites in ((large, 5000), (small, 100)):
        if not run.exists():
            make(run, sites, 2000)
    page = folder / "large.html"
    taken = [write(large, page) for _ in range(3)]
    what = "tensortap report, 5 000 sites x 2 000 steps"
    harness.row(f"{what}: processor time", min(t for t, _ in taken), 3, unit="s", at_most=True)
    harness.row(f"{what}: memory", max(m for _, m in taken), 256, unit="MB", at_most=True)
    harness.row(f"{what}: size of the page", page.stat().st_size / 1e6, 4, unit="MB", at_most=True)
    write(small, folder / "small.html")
    size = (folder / "small.html").stat().st_size / 1e6
    harness.row(
        "tensortap report, 100 sites x 2 000 steps: size of the page",
        size,
        1,
        unit="MB",
        at_most=True,
    )
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        opened = [open_page(chromium, page) for _ in range(PAINTS)]
        chromium.close()
    paint = median(p for p, _ in opened)
    scrub = median(s for _, s in opened)
    harness.row(
        "that large page in Chromium: first paint, with the verdict",
        paint,
        1000,
        unit="ms",
        at_most=True,
    )
    harness.row(
        "that large page in Chromium: one step of the slider", scrub, 50, unit="ms", at_most=True
    )


if len(sys.argv) > 1:
    main(Path(sys.argv[1]))
else:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as where:
        main(Path(where))
