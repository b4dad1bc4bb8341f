"""A run in TensorBoard and in our page: until something about it is seen, in the same browser.

`tensortap export --to tensorboard` writes the same numbers for TensorBoard.

    python bench/bench_tensorboard.py [SITES STEPS]

SPDX-License-Identifier: Apache-2.0
"""

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import harness
from large_run import make
from playwright.sync_api import sync_playwright

BIN = Path(sys.executable).parent
PROGRAM = BIN / "tensortap"


def time_until(browser: Any, address: str, selector: str) -> float:
    """Return how long it takes until the element is there, in ms."""
    tab = browser.new_page()
    start = time.perf_counter()
    tab.goto(address, wait_until="commit")
    tab.wait_for_selector(selector, state="attached", timeout=600000)
    taken = (time.perf_counter() - start) * 1000
    tab.close()
    return taken


def tensorboard(browser: Any, folder: Path) -> float:
    """Return the time from its start until its first chart is drawn, in ms."""
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
        start = time.perf_counter()
        while True:  # until it listens: its own start does not count
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
            assert time.perf_counter() - start < 120
        return time_until(browser, f"http://127.0.0.1:{port}/", "scalar-card line-chart")
    finally:
        child.terminate()
        child.wait()


def served(browser: Any, run: Path) -> float:
    """Return the time until our page has drawn its curves, in ms; the verdict is there before."""
    child = subprocess.Popen(
        [str(PROGRAM), "serve", str(run), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    address = next(line.strip() for line in child.stdout if line.startswith("http://"))
    try:
        return time_until(browser, address, "#curves .uplot")
    finally:
        child.terminate()
        child.wait()


def main(sites: int, steps: int) -> None:
    """Measure both, in turns."""
    with tempfile.TemporaryDirectory() as where, sync_playwright() as playwright:
        run, exported = Path(where) / "run", Path(where) / "exported"
        make(run, sites, steps)
        export = [str(PROGRAM), "export", str(run), "--to", "tensorboard", "-o", str(exported)]
        subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = Path(where) / "page.html"
        report = [str(PROGRAM), "report", str(run), "-o", str(page)]
        subprocess.run(report, check=True, stdout=subprocess.DEVNULL)
        taken = [
            (
                time_until(browser, page.as_uri(), "#findings li"),
                served(browser, run),
                tensorboard(browser, exported),
            )
            for _ in range(3)
        ]
        browser.close()
    verdict, curve, other = (median(one) for one in zip(*taken, strict=True))
    what = f"{sites} sites x {steps} steps in Chromium"
    harness.row(f"{what}, tensortap report: until the verdict is there", verdict, None, unit="ms")
    harness.row(f"{what}, tensortap serve: until a curve is there", curve, None, unit="ms")
    harness.row(f"{what}, TensorBoard: until a curve is there", other, None, unit="ms")
    harness.row("the same, TensorBoard / report: first content", other / verdict, 10, unit="x")
    harness.row("the same, TensorBoard / serve: first curve", other / curve, None, unit="x")


main(*(int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (200, 50))
