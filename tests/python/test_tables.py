"""Runs as tables of other libraries: every row is what `tt.open` says."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged import SHARD, UNKNOWN, Site, write_job

import tensortap as tt
from tensortap import _core
from tensortap.runs.tables import TABLES

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.compute")  # pa.compute

FLOATS = ("min", "max", "absmax", "sum", "mean", "var", "std", "rms", "l1", "l2")
COUNTS = ("count", "zeros", "nan", "posinf", "neginf")


def rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows as pyarrow reads them."""
    whole = pa.table(table)
    whole.validate(full=True)
    return whole.to_pylist()


def record(path: Path, **options: Any) -> tt.Run:
    """Record points of many kinds."""
    with tt.record(path, keep=options.pop("keep", "stats,digest,hist"), **options) as run:
        for step in range(5):
            x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4) * (step + 1)
            run.log("loss", [1.0, 0.5, math.nan, math.inf, 0.25][step])
            run.tensor("gradient/h.3.mlp.weight", x)
            run.tensor("activation/h.3", x.astype(np.float64))
            run.tensor("ints", np.arange(step, step + 6, dtype=np.int64).reshape(2, 3))
            run.tensor("bools", np.array([True, False]))
            run.tensor("complex", np.array([1 + 2j, 3 - 4j], np.complex64))
            run.tensor("empty", np.empty((0, 2), np.float32))
            run.tensor("one", np.float32(2.5))
            run.tensor("bad", np.array([np.nan, np.inf, -np.inf, 1.0], np.float32))
            run.tensor("nothing", np.array([np.nan], np.float32))
            run.step()
    return tt.open(path)


def check_row(row: dict[str, Any], stats: Any) -> None:
    """Check that the columns of a tensor are its statistics."""
    assert row["dtype"] == str(stats.dtype)
    assert row["shape"] == "x".join(map(str, stats.shape))
    assert {field: row[field] for field in COUNTS} == {
        field: getattr(stats, field) for field in COUNTS
    }
    for field in FLOATS:
        expected = getattr(stats, field)
        expected = expected.real if isinstance(expected, complex) else float(expected)
        found = expected if math.isfinite(expected) else None
        assert row[field] == found, (row["site"], field)


def test_rows_of_every_type_are_what_stats_says(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "bfloat16"]
    types = [np.dtype(code) for code in ("f2", "f4", "f8", "c8", "c16", "?")]
    types += [np.dtype(f"{sign}{size}") for sign in "iu" for size in (1, 2, 4, 8)]
    types += [np.dtype(getattr(ml_dtypes, name)) for name in names]
    with tt.record(tmp_path / "run", keep="stats") as run:
        for dtype in types:
            for low in (0, 3):
                run.tensor(f"x/{dtype.name}", np.arange(low, 8).astype(dtype))
    found = tt.open(tmp_path / "run")
    seen = rows(found)
    assert len({row["dtype"] for row in seen}) == len(types)
    for name in found.names():
        mine = [row for row in seen if row["site"] == name]
        for row, stats in zip(mine, found.stats(name), strict=True):
            check_row(row, stats)


@pytest.mark.heavy
def test_nearly_as_many_sites_as_a_run_may_hold(tmp_path: Path) -> None:
    writer = _core.Recorder(str(tmp_path / "run"), products=2)
    for site in range(262_000):
        writer.tensor(f"activation/{site}", np.full(1, site, np.float32))
    writer.close()
    table = pa.table(tt.open(tmp_path / "run").points(fields=["module", "max"]))
    assert table.num_rows == 262_000
    modules = table["module"].cast(pa.string()).to_pylist()
    assert [float(name) for name in modules] == table["max"].to_pylist()


def test_every_row_is_what_stats_says(tmp_path: Path) -> None:
    run = record(tmp_path / "run")
    found = rows(run)
    assert len(found) == sum(file.points for file in run.files) - count_ours(run)
    for name in run.names():
        mine = [row for row in found if row["site"] == name]
        assert [row["step"] for row in mine] == list(range(5))
        if name == "loss":
            values = [row["value"] for row in mine]
            assert values[:2] == [1.0, 0.5]
            assert math.isnan(values[2])
            assert values[3] == math.inf
            assert all(row["mean"] is None and row["dtype"] is None for row in mine)
            continue
        for row, stats in zip(mine, run.stats(name), strict=True):
            assert row["value"] is None
            check_row(row, stats)
            digest = run.digest(name, row["step"])
            assert row["digest"].hex() == digest.hex()


def count_ours(run: tt.Run) -> int:
    """Return the number of points about the recording itself."""
    return len(rows(run.points("tensortap/*")))


def test_statistics_are_finite_or_null(tmp_path: Path) -> None:
    run = record(tmp_path / "run")
    for row in rows(run.points("bad,nothing,empty", fields=["site", *FLOATS])):
        numbers = [row[field] for field in FLOATS]
        assert all(x is None or math.isfinite(x) for x in numbers)
    [*_, last] = rows(run.points("nothing"))
    assert (last["min"], last["mean"], last["std"], last["nan"]) == (None, None, None, 1)


def test_names_are_split_into_kind_module_layer_and_tensor(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.LSTM(2, 2)])
            self.scale = torch.nn.Parameter(torch.ones(2))

        def forward(self, x: Any) -> dict[str, Any]:
            return {"logits": self.layers[1](self.layers[0](x) * self.scale)[0]}

    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.record(tmp_path / "run", model=model) as run:
        model(torch.ones(3, 1, 2))["logits"].sum().backward()
        optimizer.step()
        run.log("train/accuracy", 1.0)
    found = {
        row["site"]: (row["kind"], row["module"], row["layer"], row["tensor"], row["class"])
        for row in rows(tt.open(tmp_path / "run").table("sites"))
    }
    assert found["activation/layers.0"] == ("activation", "layers.0", 0, None, "Linear")
    assert found["activation/layers.1.1.0"] == ("activation", "layers.1", 1, "1.0", "LSTM")
    assert found["activation/(root).logits"] == ("activation", "(root)", None, "logits", "Block")
    assert found["gradient/layers.0.weight"] == ("gradient", "layers.0", 0, "weight", "Linear")
    assert found["parameter/scale"] == ("parameter", "(root)", None, "scale", "Block")
    assert found["train/accuracy"] == ("train", None, None, "accuracy", None)
    assert found["gradient_norm"] == (None, None, None, "gradient_norm", None)


def test_globs_steps_and_fields_choose(tmp_path: Path) -> None:
    run = record(tmp_path / "run")
    chosen = rows(run.points("ints,one", steps=(1, 3), fields=["step", "site"]))
    assert [(row["site"], row["step"]) for row in chosen] == [
        (site, step) for site in ("ints", "one") for step in (1, 2, 3)
    ]
    assert list(chosen[0]) == ["step", "site"]
    assert {row["step"] for row in rows(run.points(steps=4))} == {4}
    assert {row["step"] for row in rows(run.points(steps=(None, 0)))} == {0}
    assert rows(run.points("no*such")) == []
    assert rows(run.points(steps=(7, None))) == []
    with pytest.raises(ValueError, match=r"no column maen; there are run, rank"):
        run.points(fields=["maen"])
    with pytest.raises(ValueError, match=r"no table pionts; there are points, histograms"):
        run.table("pionts")
    with pytest.raises(TypeError, match=r"steps must be a step or \(first, last\)"):
        run.points(steps="1:2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ranks must be"):
        run.points(ranks=[-1])


def test_times_are_utc_in_microseconds(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    run = record(tmp_path / "run")
    schema = pa.table(run).schema
    assert schema.field("time").type == pa.timestamp("us", tz="UTC")
    assert schema.field("digest").type == pa.binary(16)
    assert schema.field("site").type == pa.dictionary(pa.int32(), pa.string())
    assert schema.field("count").type == pa.int64()
    assert all(before.replace(microsecond=0) <= row["time"] for row in rows(run))


def test_ranks_are_joined_unless_they_are_asked_for(tmp_path: Path) -> None:
    whole = np.arange(32, dtype=np.float32).reshape(8, 4)
    parts = Site("gradient/w", (SHARD,), lambda rank, step: whole[4 * rank : 4 * rank + 4], (8, 4))
    write_job(tmp_path / "run", (2,), [parts], 3)
    run = tt.open(tmp_path / "run")
    joined = rows(run)
    assert [(row["rank"], row["count"], row["max"]) for row in joined] == [(-1, 32, 31.0)] * 3
    single = rows(run.points(ranks="all"))
    assert [(row["rank"], row["max"]) for row in single] == [(0, 15.0)] * 3 + [(1, 31.0)] * 3
    assert {row["rank"] for row in rows(run.points(ranks=1))} == {1}


def test_what_cannot_be_joined_has_rows_of_each_rank(tmp_path: Path) -> None:
    whole = np.arange(32, dtype=np.float32).reshape(8, 4)
    parts = Site("gradient/w", (SHARD,), lambda rank, step: whole[4 * rank : 4 * rank + 4], (8, 4))
    own = Site("activation/x", (UNKNOWN,), lambda rank, step: np.full(2, rank + 1.0, np.float32))
    write_job(tmp_path / "run", (2,), [parts, own], 2)
    run = tt.open(tmp_path / "run")
    found = [(row["site"], row["rank"], row["step"], row["max"]) for row in rows(run)]
    assert found == [
        *(("activation/x", rank, step, rank + 1.0) for rank in (0, 1) for step in (0, 1)),
        *(("gradient/w", -1, step, 31.0) for step in (0, 1)),
    ]
    assert len(rows(run.points("activation/*", steps=1))) == 2


def test_the_other_tables_say_what_the_run_says(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", keep="hist") as writer:
        writer.note("look here")
        writer.setting(0, "optimizer/lr", "0.1")
        for step in range(3):
            writer.tensor("x", np.arange(8.0) + step)
            writer.log("loss", math.nan if step == 2 else 1.0)
            writer.step()
    run = tt.open(tmp_path / "run")
    bins = rows(run.table("histograms"))
    for step in range(3):
        mine = [(r["low"], r["high"], r["count"]) for r in bins if r["step"] == step]
        assert mine == run.histogram("x", step)
    [about] = rows(run.table("runs"))
    assert (about["state"], about["first_step"], about["last_step"]) == ("finished", 0, 2)
    assert (about["tensortap"], about["world_size"], about["ranks"]) == (tt.__version__, 1, 1)
    assert about["start"].timestamp() == pytest.approx(
        datetime.fromisoformat(run.info["start"]).timestamp()
    )
    assert "look here" in [row["text"] for row in rows(run.table("notes"))]
    assert ("optimizer/lr", "0.1") in [(r["key"], r["value"]) for r in rows(run.table("settings"))]
    found = rows(run.table("findings"))
    assert [row["rule"] for row in found] == [finding.rule for finding in tt.health(run)]
    assert "nonfinite" in [row["rule"] for row in found]
    names = [(r["site"], r["points"]) for r in rows(run.table("sites"))]
    assert names == [("loss", 3), ("x", 3)]


def test_many_runs_are_one_table(tmp_path: Path) -> None:
    for name in ("a", "deep/b", "deep/c"):
        with tt.record(tmp_path / name) as run:
            run.log("loss", 0.5)
    runs = tt.open_many(tmp_path)
    assert [os.path.relpath(name, tmp_path) for name in runs.names] == ["a", "deep/b", "deep/c"]
    assert [row["run"] for row in rows(runs.points("loss"))] == runs.names
    assert len(tt.open_many(f"{tmp_path}/deep/*")) == 2
    assert len(tt.open_many([tmp_path / "a", tmp_path / "deep", tmp_path / "a"])) == 3
    assert [run.names() for run in runs] == [["loss"]] * 3
    with pytest.raises(FileNotFoundError, match=r"there is no run at .*nowhere; give a run"):
        tt.open_many(tmp_path / "nowhere")


def test_a_run_without_points_is_an_empty_table(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run"):
        pass
    run = tt.open(tmp_path / "run")
    assert rows(run.points("loss")) == []
    for name in TABLES:
        assert pa.table(run.table(name)).num_columns > 3


def test_names_of_any_bytes_are_text(tmp_path: Path) -> None:
    writer = _core.Recorder(str(tmp_path / "run"), products=2)
    names = ["ünï/ço.dé", 'quo"te', "a\x1b[31mb", "日本/語.重み", "x" * 4000]
    for name in names:
        writer.tensor(name, np.ones(2))
    writer.close()
    assert [row["site"] for row in rows(tt.open(tmp_path / "run"))] == sorted(names)


def damage(path: Path, run: tt.Run) -> None:
    """Flip bytes in the middle of the largest chunk."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = bytes(b ^ 0xFF for b in content[middle : middle + 8])
    path.write_bytes(content)


def test_damage_is_an_error_and_partial_reads_the_rest(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", keep="stats") as run:
        for _ in range(3000):
            run.tensor("a", np.random.rand(3))
            run.tensor("b", np.random.rand(3))
            run.step()
    damage(tmp_path / "run" / "rank0.tap", tt.open(tmp_path / "run"))
    broken = tt.open(tmp_path / "run")
    with pytest.raises(OSError, match=r"cannot be read, the file is damaged|are damaged"):
        rows(broken)
    table = broken.points(partial=True)
    rest = rows(table)
    _, points, size = table.lost
    assert points > 0 or size > 0
    assert 0 < len(rest) < 6000
    assert {row["site"] for row in rest} <= {"a", "b"}


def test_a_run_that_is_gone_is_an_error_and_partial_reads_the_others(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with tt.record(tmp_path / name) as run:
            run.log("loss", 0.5)
    (tmp_path / "b" / "rank0.tap").write_bytes(b"nothing of ours" * 100)
    runs = tt.open_many(tmp_path)
    with pytest.raises(OSError, match="is not a run file"):
        rows(runs)
    table = runs.points("loss", partial=True)
    assert [row["value"] for row in rows(table)] == [0.5]
    assert table.lost[0] == 1
    states = {row["run"]: (row["state"], row["error"]) for row in rows(runs.table("runs"))}
    assert states[runs.names[0]] == ("finished", None)
    assert states[runs.names[1]][0] == "unreadable"
    assert "is not a run file" in str(states[runs.names[1]][1])


def test_a_run_that_grows_is_read_as_far_as_it_is_written(tmp_path: Path) -> None:
    writer = tt.record(tmp_path / "run")
    seen = 0
    for step in range(30):
        writer.log("loss", float(step))
        writer.step()
        writer.flush()
        values = [row["value"] for row in rows(tt.open(tmp_path / "run").points("loss"))]
        assert values == [float(i) for i in range(len(values))]
        assert len(values) >= seen
        seen = len(values)
    writer.close()
    assert seen > 0


def test_streams_may_be_released_at_any_time_and_in_any_thread(tmp_path: Path) -> None:
    run = record(tmp_path / "run")
    table = run.points()
    table.__arrow_c_stream__()  # never read
    reader = pa.RecordBatchReader.from_stream(table)
    first = reader.read_next_batch()
    run.close()
    del run, table, reader  # in the middle
    gc.collect()
    assert first.num_rows > 0
    first.validate(full=True)
    readers = [pa.RecordBatchReader.from_stream(tt.open(tmp_path / "run")) for _ in range(4)]
    counts: list[int] = []

    def read(one: Any) -> None:
        counts.append(one.read_all().num_rows)

    threads = [threading.Thread(target=read, args=(one,)) for one in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(counts)) == 1


def test_a_stream_that_was_released_is_not_released_again(tmp_path: Path) -> None:
    record(tmp_path / "run")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for _ in range(10):
        capsule = tt.open(tmp_path / "run").__arrow_c_stream__()
        at = pointer(capsule, b"arrow_array_stream")
        released = ctypes.c_void_p.from_address(at + 3 * 8)  # get_schema, get_next, get_last_error
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(released.value)(at)
        assert released.value is None
        del capsule


def test_many_batches_hold_the_same_as_one_series(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", keep="stats") as run:
        for step in range(30_000):
            run.log("loss", float(step))
            if step % 3 == 0:
                run.tensor("x", np.full(2, step, np.float32))
            run.step()
    run = tt.open(tmp_path / "run")
    whole = pa.table(run.points())
    assert whole.column("site").num_chunks > 1
    for name, field in (("loss", "value"), ("x", "rms")):
        mine = whole.filter(pa.compute.equal(whole["site"].cast(pa.string()), name))
        steps, values = run.series(name, field)
        assert np.array_equal(mine["step"].to_numpy(), steps)
        assert np.array_equal(mine[field].to_numpy(), values)


def test_duckdb_reads_a_run_twice(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    run = record(tmp_path / "run")
    base = duckdb.connect()
    for _ in range(2):
        [[count, top]] = base.sql(
            "select count(*), max(rms) from run where kind = 'gradient'"
        ).fetchall()
        assert (count, top) == (5, max(s.rms for s in run.stats("gradient/h.3.mlp.weight")))


def test_duckdb_knows_the_dictionaries_of_many_batches(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    for number in range(3):
        writer = _core.Recorder(str(tmp_path / f"run{number}"), products=2)
        for site in range(20_000):  # one row each: every batch has other words
            writer.tensor(f"activation/{number}.{site}", np.full(1, site, np.float32))
        writer.close()
    runs = tt.open_many(tmp_path)  # noqa: F841  DuckDB finds it by its name
    found = duckdb.sql("select site, module, max from runs").fetchall()
    assert len(found) == 60_000
    assert all(site == f"activation/{module}" for site, module, _ in found)
    assert all(int(module.split(".")[1]) == top for _, module, top in found)


def test_polars_reads_a_run(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    run = record(tmp_path / "run")
    frame = pl.DataFrame(run)
    assert frame.height == len(rows(run))
    mine = frame.filter(pl.col("site").cast(pl.String) == "ints")
    assert mine["sum"].to_list() == [float(s.sum) for s in run.stats("ints")]


def test_pandas_reads_a_run(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    run = record(tmp_path / "run")
    frame = pandas.DataFrame.from_arrow(run)
    mine = frame[frame["site"] == "ints"]
    assert mine["sum"].tolist() == [float(s.sum) for s in run.stats("ints")]


def test_nanoarrow_reads_a_run(tmp_path: Path) -> None:
    nanoarrow = pytest.importorskip("nanoarrow")
    run = record(tmp_path / "run")
    stream = nanoarrow.ArrayStream(run.points("ints", fields=["step", "site"]))
    assert [row["step"] for row in stream.read_all().to_pylist()] == list(range(5))


def test_the_tables_have_a_line_for_each_column() -> None:
    described = {name: [column for column, _, _ in columns] for name, _, columns in _core.tables()}
    assert tuple(described) == TABLES
    for name in TABLES:
        table = _core.Table(name, [], [], "*", 0, 1, None, None, False)
        assert pa.table(table).schema.names == described[name]
