"""Runs of 1 GB in SeaweedFS behind 30 ms of latency: bytes, rounds and time of two commands.

One is nearly all values, the other all statistics.
"""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import harness
import large_run
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


def ask(kind: str, name: str, size: int, command: str) -> None:
    """Measure one command on one run."""
    url, of = f"s3://team/{name}", f"{command} of {size / 1e9:.1f} GB of {kind}, 30 ms away"
    question = partial(mirrors.ask, str(PROGRAM), [command, url]) if command == "nan" else None
    os.environ["TENSORTAP_CACHE"] = str(where / f"{name}-{command}-counted")
    _, counted = mirror.mirror(url, ask=question)
    is_bar = kind == "values" or command == "nan"
    share = 100 * counted.bytes / size
    harness.row(f"{of}: bytes", share, 2 if is_bar else None, unit="%", at_most=True)
    harness.row(f"{of}: rounds", counted.rounds, 4, at_most=True)
    taken = []
    for turn in range(3):
        os.environ["TENSORTAP_CACHE"] = str(where / f"{name}-{command}-{turn}")
        start = time.perf_counter()
        subprocess.run([PROGRAM, command, url], stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    harness.row(f"{of}: time", median(taken), 1.5 if is_bar else None, unit="s", at_most=True)


with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as folder:
    where = Path(folder)
    record(where / "big")
    large_run.make(where / "numbers", 1000, MEGABYTES * 7)
    from tensortap.cloud import mirror, upload
    from tensortap.commands import mirrors

    with object_store(where / "weed") as (proxy, _):
        for kind, name in (("values", "big"), ("statistics", "numbers")):
            proxy.latency = 0.0
            size = (where / name / "rank0.tap").stat().st_size
            sent = upload.upload(where / name, "s3://team", follow=False, say=print)
            harness.row(f"bytes sent over those of {kind}", sent / size, 1.02, at_most=True)
            proxy.latency = 0.03
            for command in ("nan", "show"):
                ask(kind, name, size, command)
        proxy.latency = 0.0
        program = large_run.build("make_job")
        subprocess.run([program, where / "job", "64", "100", "150", "dp-tp"], check=True)
        upload.upload(where / "job", "s3://team", follow=False, say=print)
        proxy.latency = 0.03
        for command in ("nan", "show"):
            os.environ["TENSORTAP_CACHE"] = str(where / f"job-{command}")
            start = time.perf_counter()
            subprocess.run([PROGRAM, command, "s3://team/job"], stdout=subprocess.DEVNULL)
            taken = time.perf_counter() - start
            harness.row(f"{command} of 64 ranks, 30 ms away", taken, 3, unit="s", at_most=True)
