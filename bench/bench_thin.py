"""A training of a million steps in one run of 2 GB: bench_thin.c, built as it is released."""

import os
import subprocess
import tempfile

import harness

folder = harness.ROOT / ".build" / "bench-core"
if not (folder / "build.ninja").exists():
    subprocess.run(
        ["meson", "setup", folder, harness.ROOT, "-Dpython=false", "-Dtests=true"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
build = ["ninja", "-C", folder, "bench/bench_thin"]
subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as where:
    subprocess.run([folder / "bench" / "bench_thin", where + "/run"], check=True)
