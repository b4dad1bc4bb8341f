"""How many numbers a second `run.log` takes, until the last is in the file."""

import tempfile
import time

import harness

import tensortap as tt

COUNT = 2_000_000
best, dropped = 0.0, 0
for _ in range(3):
    with tempfile.TemporaryDirectory() as folder:
        run = tt.record(f"{folder}/run")
        log, names = run.log, [f"metric/{i}" for i in range(10)]
        start = time.perf_counter()
        for step in range(COUNT // 10):
            for name in names:
                log(name, 0.5)
            if step % 100 == 0:
                run.step()
        run.flush()
        best = max(best, COUNT / (time.perf_counter() - start))
        dropped += run.counts["dropped_events"]
        run.close()
harness.row("run.log values a second, sustained", best, 500_000)
harness.row("run.log values dropped", dropped, 0, at_most=True)
