"""Runs as tables: all rows of 10 million points, one site of them, a thousand runs."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import duckdb
import harness
import large_run

import tensortap as tt

SITES, STEPS = 5000, int(os.environ.get("TENSORTAP_BENCH_STEPS", "2000"))
RUNS, RUN_SITES, RUN_STEPS = int(os.environ.get("TENSORTAP_BENCH_RUNS", "1000")), 50, 200


class Array(ctypes.Structure):
    """ArrowArray of the C data interface."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("length", "nulls", "offset", "buffers", "children")),
        *((name, ctypes.c_void_p) for name in ("data", "inner", "dictionary")),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private", ctypes.c_void_p),
    )


class Stream(ctypes.Structure):
    """ArrowArrayStream of the C stream interface."""

    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private", ctypes.c_void_p),
    )


def count(table: object) -> int:
    """Return the number of rows of a stream; each batch is made and released."""
    capsule = table.__arrow_c_stream__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = pointer(capsule, b"arrow_array_stream")
    stream, array, rows = Stream.from_address(at), Array(), 0
    while True:
        assert stream.get_next(at, ctypes.addressof(array)) == 0
        if not array.release:
            return rows
        rows += array.length
        array.release(ctypes.addressof(array))


def wall(call: Callable[[], object], turns: int = 5) -> float:
    """Return the median time on the wall; engines have threads of their own."""
    taken = []
    for _ in range(turns):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return median(taken)


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def one_large_run(where: Path) -> None:
    large_run.make(where / "large", SITES, STEPS)
    run, base = tt.open(where / "large"), duckdb.connect()
    base.execute("set threads = 1")
    base.register("run", run)
    rows = count(run)
    assert rows == (SITES + 1) * STEPS
    (taken,) = harness.times(lambda: count(run), turns=3)
    harness.row(
        f"rows of {rows / 1e6:.1f} M, all columns, counted", rows / taken / 1e6, 20, unit="M/s"
    )

    def add_up() -> None:
        assert base.sql("select sum(rms) from run").fetchall()

    (taken,) = harness.times(add_up, turns=3)
    harness.row("the same into DuckDB, sum()", rows / taken / 1e6, 5, unit="M/s")
    table = run.points(fields=["step", "rms"])

    def add_up_two() -> None:
        assert base.sql("select sum(rms) from table_").fetchall()

    base.register("table_", table)
    (taken,) = harness.times(add_up_two, turns=3)
    harness.row("the same, two columns asked for", rows / taken / 1e6, None, unit="M/s")
    grown = harness.peak_extra(lambda: count(run))
    harness.row("memory of a stream", grown / 1e6, 64, unit="MB", at_most=True)

    def one_site() -> None:
        base.register("site", tt.open(where / "large").points("gradient/layers.7.mlp.up.weight"))
        assert base.execute("select count(*), max(rms) from site").fetchall()[0][0] == STEPS

    harness.row(
        "one site of 5 000, open and DuckDB", wall(one_site) * 1e3, 50, unit="ms", at_most=True
    )


def many_runs(where: Path) -> None:
    large_run.make(where / "runs" / "0", RUN_SITES, RUN_STEPS)
    for i in range(1, RUNS):
        shutil.copytree(where / "runs" / "0", where / "runs" / str(i))
    program = Path(sys.executable).parent / "tensortap"
    words = ["export", "runs", "--to", "parquet", "-o", "set"]
    start = time.perf_counter()
    subprocess.run([program, *words], cwd=where, check=True)
    harness.row(f"export of {RUNS} runs as Parquet", time.perf_counter() - start, None, unit="s")
    share = size_of(where / "set") / size_of(where / "runs")
    harness.row("size of the Parquet files over the runs", share, 1.5, at_most=True)
    points = f"read_parquet('{where}/set/points/**/*.parquet')"
    sql = "select run, max(rms) from {} where kind = 'gradient' group by run"

    def ask(table: str) -> None:
        assert len(duckdb.sql(sql.format(table)).fetchall()) == RUNS

    harness.row(
        f"an aggregate over {RUNS} runs of 10 000 points, Parquet",
        wall(lambda: ask(points), 3),
        2,
        unit="s",
        at_most=True,
    )

    def directly() -> None:
        base = duckdb.connect()
        base.register("runs", tt.open_many(where / "runs"))
        assert len(base.sql(sql.format("runs")).fetchall()) == RUNS

    harness.row("the same from the runs", wall(directly, 3), 5, unit="s", at_most=True)


with tempfile.TemporaryDirectory(dir=os.environ.get("TENSORTAP_BENCH_DIR")) as folder:
    one_large_run(Path(folder))
    many_runs(Path(folder))
