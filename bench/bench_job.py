"""Commands on the files of a job of 1 024 ranks: 200 steps, 300 sites, 4.5 GB.

Processor time and memory.  Twice: with replicas (data by tensor parallelism), of which one of each
class is read, and with parameters that are sharded over all ranks, where every point is read.
SPDX-License-Identifier: Apache-2.0
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import bench_command as command
import harness
import large_run

RANKS, STEPS, SITES = 1024, 200, 299  # and a loss
SERIES = "activation/layers.3.mlp.up"


def make(folder: Path, way: str, ranks: int = RANKS) -> None:
    """Write a job with the program of make_job.c."""
    program = large_run.build("make_job")
    words = (folder, ranks, STEPS, SITES, way)
    subprocess.run([program, *map(str, words)], check=True)


def measure(job: Path, way: str, page: Path) -> None:
    """Print a row for the time of each command, and one for the most memory of all."""
    asked = {
        "nan": (1, ("nan", job)),
        "ls": (1, ("ls", job)),
        "show": (3, ("show", job)),
        "health": (4, ("health", job)),
        "diff with itself": (10, ("diff", job, job)),
        "report": (10, ("report", job, "-o", page)),
        "one joined series": (0.5, ("stats", job, SERIES, "--json")),
    }
    most = 0.0
    for name, (bar, words) in asked.items():
        [taken] = command.compare([command.PROGRAM, *words], turns=3)
        most = max(most, taken.memory)
        what = f"1 024 ranks, {way}: {name}, processor time"
        harness.row(what, taken.processor, bar, unit="s", at_most=True)
    harness.row(f"1 024 ranks, {way}: memory, at most", most, 256, unit="MB", at_most=True)


def main() -> None:
    """Measure both ways; a folder as an argument is where the files go."""
    where = sys.argv[1] if len(sys.argv) > 1 else None
    for way in ("dp-tp", "fsdp"):
        folder = Path(tempfile.mkdtemp(dir=where))
        try:
            make(folder / "job", way)
            measure(folder / "job", way, folder / "page.html")
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
