"""The memory of a recorder: numbers without end, and a tensor of 1 GB."""

import tempfile

import harness
import numpy as np

import tensortap as tt

large = np.ones(1 << 28, np.float32)  # 1 GB
large[::4096] = np.arange(1 << 16)


def record_large() -> None:
    with tempfile.TemporaryDirectory() as folder, tt.record(f"{folder}/run") as run:
        run.tensor("x", large, keep="stats|value")


def record_many() -> None:
    with tempfile.TemporaryDirectory() as folder, tt.record(f"{folder}/run") as run:
        for i in range(1_000_000):
            run.log("x", i)


def record_nothing() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tt.record(f"{folder}/run").close()


record_nothing()
for what, call in (("a tensor of 1 GB", record_large), ("a million numbers", record_many)):
    # peak_extra runs the call once before it measures.
    extra = harness.peak_extra(call) / 2**20
    harness.row(f"memory of a recorder, {what}", extra, 64, unit="MB", at_most=True)
