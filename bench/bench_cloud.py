"""A run of 1 GB in SeaweedFS behind 30 ms of latency: bytes, rounds and time of two commands."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
import numpy as np

import tensortap as tt

sys.path.insert(0, str(harness.ROOT / "tests" / "python"))
from object_store import object_store

MEGABYTES = int(os.environ.get("TENSORTAP_BENCH_MB", "1000"))
PROGRAM = Path(sys.executable).parent / "tensortap"


def record(path: Path) -> None:
    x = np.random.rand(1 << 20).astype(np.float32)  # 4 MB
    with tt.record(path, keep="stats,value", only="activation/*,gradient/*") as run:
        for step in range(MEGABYTES // 4):
            x[step] = np.nan if step == MEGABYTES // 8 else 0.5
            run.tensor("activation/fc", x)
            for i in range(100):
                run.tensor(f"gradient/{i}.w", tt.stats(x[i : i + 8]))
            run.step()


with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as folder:
    where = Path(folder)
    record(where / "big")
    from tensortap.cloud import mirror, upload

    size = (where / "big" / "rank0.tap").stat().st_size
    with object_store(where / "weed") as (proxy, _):
        sent = upload.upload(where / "big", "s3://team", follow=False, say=print)
        harness.row("bytes sent over the file's", sent / size, 1.02, at_most=True)
        proxy.latency = 0.03
        os.environ["TENSORTAP_CACHE"] = str(where / "first")
        _, counted = mirror.mirror("s3://team/big")
        name = f"of a run of {size / 1e9:.1f} GB in a store"
        share = 100 * counted.bytes / size
        harness.row(f"bytes that are read {name}", share, 2, unit="%", at_most=True)
        harness.row("rounds of requests", counted.rounds, 4, at_most=True)
        for command in ("nan", "show"):
            os.environ["TENSORTAP_CACHE"] = str(where / command)
            start = time.perf_counter()
            subprocess.run([PROGRAM, command, "s3://team/big"], stdout=subprocess.DEVNULL)
            taken = time.perf_counter() - start
            harness.row(f"{command} {name}, 30 ms away", taken, 1.5, unit="s", at_most=True)
