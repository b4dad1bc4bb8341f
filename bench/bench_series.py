"""Opening a run of 10 million points, and one series of 100 000 out of it; closed and killed."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

import tensortap as tt

SITES, STEPS = 100, 100_000
CODE = """
import os, sys, numpy as np, tensortap as tt
run = tt.record(sys.argv[1])
log, names = run.log, [f"metric/{i}" for i in range(int(sys.argv[2]))]
noise = np.random.default_rng(0).normal(size=int(sys.argv[3])).tolist()
for value in noise:
    for name in names:
        log(name, value)
    run.step()
run.flush()
if sys.argv[4] == "killed":
    os._exit(0)
run.close()
"""

with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as where:
    for how in ("closed", "killed"):
        folder = Path(where) / how
        subprocess.run(
            [sys.executable, "-c", CODE, str(folder), str(SITES), str(STEPS), how], check=True
        )
        (opening,) = harness.times(lambda folder=folder: tt.open(folder).close())
        run = tt.open(folder)
        assert len(run.series("metric/7", "value")[0]) == STEPS
        (series,) = harness.times(lambda run=run: run.series("metric/7", "value"))
        harness.row(f"open 10 M points, {how}", opening * 1e3, 50, unit="ms", at_most=True)
        harness.row(
            f"series of 100 000 steps out of 10 M points, {how}",
            series * 1e3,
            20,
            unit="ms",
            at_most=True,
        )
