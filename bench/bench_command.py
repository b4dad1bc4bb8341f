"""How fast the command answers: first lines on 10 million points, diff of two million.

Needs the built programs: TENSORTAP_BUILD names the build folder (.build/test).
SPDX-License-Identifier: Apache-2.0
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import harness

BUILD = Path(os.environ.get("TENSORTAP_BUILD", harness.ROOT / ".build" / "test"))
PROGRAM, MAKER = BUILD / "cli" / "tensortap", BUILD / "tests" / "cli" / "make_run"
TURNS = 9


def first_line(*arguments: str) -> float:
    """Return the median time until the first line is there, in ms."""
    taken = []
    for _ in range(TURNS):
        start = time.perf_counter()
        with subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE) as command:
            assert command.stdout is not None
            command.stdout.readline()
            taken.append(time.perf_counter() - start)
            command.kill()
    return median(taken) * 1e3


def main() -> None:
    """Measure every bar of the command."""
    if not PROGRAM.exists() or not MAKER.exists():
        sys.exit(f"bench_command: {PROGRAM} or {MAKER} is not built; set TENSORTAP_BUILD")
    harness.row("tensortap --version", first_line("--version"), 5, unit="ms", at_most=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, steps in (("large", 10_000), ("a", 1_000), ("b", 1_000)):
            subprocess.run([MAKER, "wide", f"{folder}/{name}", str(steps)], check=True)
        for command, what in (
            ("ls", folder),
            ("show", f"{folder}/large"),
            ("nan", f"{folder}/large"),
        ):
            taken = first_line(command, what)
            harness.row(
                f"tensortap {command}, 10 million points", taken, 100, unit="ms", at_most=True
            )
        taken = []
        for _ in range(TURNS):
            start = time.perf_counter()
            subprocess.run(
                [PROGRAM, "diff", f"{folder}/a", f"{folder}/b"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            taken.append(time.perf_counter() - start)
        harness.row(
            "tensortap diff, a million points each", median(taken), 1, unit="s", at_most=True
        )
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        harness.row("its memory (and the others')", peak, 128, unit="MB", at_most=True)


main()
