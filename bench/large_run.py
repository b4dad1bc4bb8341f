"""Write large runs with the programs of make_large_run.c and make_job.c.

SPDX-License-Identifier: Apache-2.0
"""

import subprocess
from pathlib import Path

import harness


def build(name: str) -> Path:
    """Build a program of this folder; return where it is."""
    folder = harness.ROOT / ".build" / "bench-core"
    if not (folder / "build.ninja").exists():
        options = ["-Dpython=false", "-Dtests=true"]
        subprocess.run(["meson", "setup", folder, harness.ROOT, *options], check=True, stdout=2)
    build = ["ninja", "-C", folder, f"bench/{name}"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    return folder / "bench" / name


def make(run: Path, sites: int, steps: int) -> None:
    """Write a run with the program of make_large_run.c."""
    subprocess.run([build("make_large_run"), run, str(sites), str(steps)], check=True)
