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

import harness
from large_run import make
from seen import chromium, seen

PROGRAM = Path(sys.executable).parent / "tensortap"
PAINTS = 5
SCRUB = """async () => {
    const slider = byId('step'), times = [];
    for (let i = 0; i < 40; i++) {
        const start = performance.now();
        slider.value = String((i * 37) % (Number(slider.max) + 1));
        slider.dispatchEvent(new Event('input'));
        /* until it is drawn */
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        times.push(performance.now() - start);
    }
    return times.sort((a, b) => a - b)[20];
}"""


def write(run: Path, page: Path) -> tuple[float, float]:
    """Write the page; return the processor time in s and the largest memory in MB."""
    child = subprocess.Popen([PROGRAM, "report", run, "-o", page], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def scrub(page: Path) -> float:
    """Return the time of a step of the slider, in ms."""
    with chromium() as browser:
        tab = browser.new_page()
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready=true]", state="attached", timeout=60000)
        assert "NaN" in tab.inner_text("#findings")
        return float(tab.evaluate(SCRUB))


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
    wanted = {"verdict": "#findings li"}
    paint = median(seen(page.as_uri(), wanted)["verdict"] for _ in range(PAINTS))
    harness.row(
        "that large page in Chromium: first paint, with the verdict",
        paint,
        1000,
        unit="ms",
        at_most=True,
    )
    harness.row(
        "that large page in Chromium: one step of the slider, until it is drawn",
        scrub(page),
        50,
        unit="ms",
        at_most=True,
    )


if len(sys.argv) > 1:
    main(Path(sys.argv[1]))
else:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as where:
        main(Path(where))
