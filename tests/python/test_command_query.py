"""`tensortap query`: SQL over many runs, and over a folder of Parquet files."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import check_schema, tensortap
from test_tables import damage

import tensortap as tt
from tensortap import _core

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

SPIKES = "select run, min(step) as step from points where site = 'norm' and value > 10 group by run"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with three runs, the second of which spikes at step 7."""
    folder = tmp_path_factory.mktemp("query")
    for number in range(3):
        with tt.record(folder / "runs" / f"r{number}", keep="stats,hist") as run:
            run.setting(0, "optimizer/lr", str(10.0**-number))
            for step in range(10):
                run.log("norm", 99.0 if (number, step) == (1, 7) else 1.0)
                run.tensor("gradient/h.0.weight", np.full(4, number + step, np.float32))
                run.step()
    return folder


def test_a_query_prints_a_table(runs: Path) -> None:
    done = tensortap("query", SPIKES, "runs", folder=runs)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "run      step\nruns/r1     7\n"


def test_an_answer_is_json_or_csv(runs: Path) -> None:
    done = tensortap("query", SPIKES, "runs", "--json", folder=runs)
    check_schema(json.loads(done.stdout), "query")
    assert json.loads(done.stdout) == {
        "schema": 1,
        "columns": ["run", "step"],
        "rows": [{"run": "runs/r1", "step": 7}],
    }
    done = tensortap("query", SPIKES, "runs", "--csv", folder=runs)
    assert list(csv.reader(io.StringIO(done.stdout))) == [["run", "step"], ["runs/r1", "7"]]


def test_values_that_json_does_not_have_are_text(runs: Path) -> None:
    sql = "select 'nan'::double a, digest, start from points, runs limit 1"
    done = tensortap("query", sql, "runs/r0", "--json", folder=runs)
    [row] = json.loads(done.stdout)["rows"]
    assert math.isnan(float(row["a"]))
    assert row["digest"] is None
    assert row["start"].startswith("20")


def test_runs_and_settings_can_be_joined(runs: Path) -> None:
    sql = (
        "select value::double as lr, max(rms) as top from points join settings using (run) "
        "where key = 'optimizer/lr' group by 1 order by 1"
    )
    sql = sql.replace("select value", "select settings.value")
    done = tensortap("query", sql, "runs", "--json", folder=runs)
    assert [tuple(row.values()) for row in json.loads(done.stdout)["rows"]] == [
        (0.01, 11.0),
        (0.1, 10.0),
        (1.0, 9.0),
    ]


def test_parquet_and_runs_answer_alike(runs: Path) -> None:
    words = ("export", "runs", "--to", "parquet", "-o", "set", "--project", "p")
    for _ in range(2):  # a run that is exported again replaces itself
        done = tensortap(*words, folder=runs)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    files = sorted((runs / "set" / "points").rglob("*.parquet"))
    assert len(files) == 3
    assert {file.parent.parent.name for file in files} == {"project=p"}
    assert files[0].parent.name == f"date={tt.open(runs / 'runs/r0').info['start'][:10]}"
    for table, _, columns in _core.tables():
        names = ", ".join(f'"{name}"' for name, _, _ in columns)
        sql = f"select {names} from {table} order by all"
        answers = [
            tensortap("query", sql, where, "--csv", folder=runs) for where in ("runs", "set")
        ]
        assert [done.returncode for done in answers] == [0, 0], answers[1].stderr
        assert answers[0].stdout == answers[1].stdout, table
    sql = "select count(*), count(distinct project) from points"
    assert tensortap("query", sql, "set", "--csv", folder=runs).stdout.endswith("\n60,1\n")


def test_parquet_is_sorted_and_adding_runs_adds_files(runs: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    tensortap("export", "runs/r0", "--to", "parquet", "-o", "more", folder=runs)
    tensortap("export", "runs/r1", "runs/r2", "--to", "parquet", "-o", "more/", folder=runs)
    files = sorted((runs / "more" / "points").rglob("*.parquet"))
    assert len(files) == 3
    table = pq.read_table(files[0]).to_pylist()
    keys = [(row["site"], row["rank"], row["step"]) for row in table]
    assert keys == sorted(keys)
    about = pq.ParquetFile(files[0]).metadata.row_group(0).column(0)
    assert about.compression == "ZSTD"


def test_the_schema_names_every_column() -> None:
    done = tensortap("query", "--schema", folder=Path.cwd())
    assert done.returncode == 0
    for table, about, columns in _core.tables():
        assert f"{table}: {about}" in done.stdout
        assert all(f"\n  {name} " in done.stdout for name, _, _ in columns)
    assert max(map(len, done.stdout.splitlines())) <= 90
    found = json.loads(tensortap("query", "--schema", "--json", folder=Path.cwd()).stdout)
    check_schema(found, "query")
    assert list(found["tables"]) == [table for table, _, _ in _core.tables()]


def test_the_schema_fits_a_terminal() -> None:
    done = tensortap("query", "--schema", folder=Path())
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_mistakes_are_said(runs: Path) -> None:
    done = tensortap("query", "selct 1", "runs", folder=runs)
    assert done.returncode == 2
    assert "Parser Error" in done.stderr
    done = tensortap("query", "select * from pionts", "runs", folder=runs)
    assert done.returncode == 2
    assert "pionts does not exist" in done.stderr
    done = tensortap("query", "select 1", "nowhere", folder=runs)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("tensortap: there is no run at nowhere; give a run")
    done = tensortap("query", "select 1", folder=runs)
    assert (done.returncode, done.stderr) == (
        2,
        "tensortap query: name runs, or folders with runs, behind the query\n",
    )
    done = tensortap("query", folder=runs)
    assert done.stderr == "tensortap query: say what to ask: a query in SQL, then runs\n"


def test_without_duckdb_it_says_what_to_install(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "duckdb.py").write_text("raise ImportError('gone', name='duckdb')")
    done = tensortap("query", "select 1", "runs", folder=runs, PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    assert "query needs DuckDB; install it with: " in done.stderr
    assert done.stderr.endswith(" -m pip install duckdb\n")


def test_damage_is_an_error_and_partial_reads_the_rest(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", keep="stats") as run:
        for _ in range(3000):
            run.tensor("a", np.random.rand(3))
            run.tensor("b", np.random.rand(3))
            run.step()
    damage(tmp_path / "run" / "rank0.tap", tt.open(tmp_path / "run"))
    sql = "select count(*) as n from points"
    done = tensortap("query", sql, "run", folder=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "damaged" in done.stderr
    done = tensortap("query", sql, "run", "--partial", "--csv", folder=tmp_path)
    assert done.returncode == 1
    assert 0 < int(done.stdout.split()[1]) < 6000
    assert "they are missing in the answer" in done.stderr
    done = tensortap("export", "run", "--to", "parquet", "-o", "set", folder=tmp_path)
    assert done.returncode == 3
    assert "damaged" in done.stderr
    assert list((tmp_path / "set").rglob("*.parquet")) == []
    done = tensortap("export", "run", "--to", "parquet", "-o", "set", "--partial", folder=tmp_path)
    assert done.returncode == 1


def test_a_name_with_quotes_is_a_name(tmp_path: Path) -> None:
    with tt.record(tmp_path / "it's") as run:
        run.log("loss", 0.5)
    words = ("export", "it's", "--to", "parquet", "-o", "it's a set")
    assert tensortap(*words, folder=tmp_path).returncode == 0
    for where in ("it's", "it's a set"):
        done = tensortap("query", "select value from points", where, "--csv", folder=tmp_path)
        assert done.stdout == "value\n0.5\n", done.stderr


SUMS = (
    "site, count(*) as points, coalesce(sum(count), 0) as elements, coalesce(sum(rms), 0) as rms,"
    " sum(coalesce(value, 0)) as value, max(step) as last, min(time) as first,"
    " count(distinct run) as runs"
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, runs: Path) -> tuple[str, dict[str, Any]]:
    """Give a folder of Parquet files, and DuckDB's sums over it by site."""
    folder = tmp_path_factory.mktemp("set")
    words = ("export", "runs", "--to", "parquet", "-o", str(folder / "set"), "--project", "demo")
    assert tensortap(*words, folder=runs).returncode == 0
    points = f"{folder}/set/points"
    base = duckdb.connect()
    base.execute("set timezone = 'UTC'")
    files = f"read_parquet('{points}/**/*.parquet', union_by_name = true)"
    columns = SUMS.replace("min(time)", "epoch_us(min(time))")
    found = base.execute(f"select {columns} from {files} group by site").fetchall()
    sums = {row[0]: row[1:] for row in found}
    assert len(sums) == 2
    return points, sums


@pytest.mark.heavy
def test_spark_reads_the_folder_as_duckdb_does(dataset: tuple[str, dict[str, Any]]) -> None:
    sql = pytest.importorskip("pyspark.sql")
    points, sums = dataset
    session = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    try:
        frame = session.read.option("mergeSchema", "true").parquet(points)
        assert {"project", "date", "run", "digest"} <= set(frame.columns)
        assert [row.project for row in frame.select("project").distinct().collect()] == ["demo"]
        frame.createOrReplaceTempView("points")
        columns = SUMS.replace("min(time)", "unix_micros(min(time))")
        found = session.sql(f"select {columns} from points group by site").collect()
        assert {row[0]: tuple(row)[1:] for row in found} == sums
    finally:
        session.stop()


def test_polars_reads_the_folder_as_duckdb_does(dataset: tuple[str, dict[str, Any]]) -> None:
    pl = pytest.importorskip("polars")
    points, sums = dataset
    frame = pl.scan_parquet(f"{points}/**/*.parquet").group_by(pl.col("site").cast(pl.String))
    found = frame.agg(
        pl.len(),
        pl.col("count").sum(),
        pl.col("rms").sum(),
        pl.col("value").fill_null(0).sum(),
        pl.col("step").max(),
        pl.col("time").min().dt.epoch("us"),
        pl.col("run").cast(pl.String).n_unique(),
    ).collect()
    assert {row[0]: pytest.approx(row[1:]) for row in found.rows()} == sums


def test_pandas_reads_the_folder_as_duckdb_does(dataset: tuple[str, dict[str, Any]]) -> None:
    pandas = pytest.importorskip("pandas")
    points, sums = dataset
    frame = pandas.read_parquet(points)
    assert set(frame["project"]) == {"demo"}
    for site, rows in frame.groupby("site", observed=True):
        mine = (
            len(rows),
            rows["count"].sum(),
            rows["rms"].sum(),
            rows["value"].fillna(0).sum(),
            rows["step"].max(),
            rows["time"].min().value // 1000,
            rows["run"].nunique(),
        )
        assert mine == pytest.approx(sums[site])
