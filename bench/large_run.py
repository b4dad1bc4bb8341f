"""Write a run of many sites and steps with the program of make_large_run.c.

SPDX-License-Identifier: Apache-2.0
"""

import subprocess
from pathlib import Path

import harness


def make(run: Path, sites: int, steps: int) -> None:
    """Write a run with the program of make_large_run.c."""
    folder = harness.ROOT / ".build" / "bench-core"
    if not (folder / "build.ninja").exists():
        options = ["-Dpython=false", "-Dtests=true"]
        subprocess.run(["meson", "setup", folder, harness.ROOT, *options], check=True, stdout=2)
    build = ["ninja", "-C", folder, "bench/make_large_run"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([folder / "bench/make_large_run", run, str(sites), str(steps)], check=True)
