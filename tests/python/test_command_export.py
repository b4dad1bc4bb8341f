"""Exports are read back by the tools they are for."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from commands import tensortap

import tensortap as tt

STEPS = 3


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Give a run with a matrix, a half-precision vector and a number at three steps."""
    with tt.record(tmp_path / "run", keep="stats|value") as recording:
        for step in range(STEPS):
            recording.tensor("parameter/w", matrix(step))
            recording.tensor("parameter/h", np.arange(4, dtype=np.float16) + step)
            recording.log("loss", 1 / (step + 1))
            recording.step()
    return tmp_path


def matrix(step: int) -> np.ndarray:
    return np.random.default_rng(step).standard_normal((5, 7), dtype=np.float32)


def export(folder: Path, to: str, out: str, glob: str = "*") -> Path:
    done = tensortap("export", "run", glob, "--to", to, "-o", out, folder=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(folder.glob("*.part"))
    return folder / out


def test_numpy_reads_npy(run: Path) -> None:
    out = export(run, "npy", "arrays", "parameter/*")
    assert len(list(out.iterdir())) == 2 * STEPS
    for step in range(STEPS):
        np.testing.assert_array_equal(np.load(out / f"parameter_w@{step}.npy"), matrix(step))
        half = np.load(out / f"parameter_h@{step}.npy")
        assert half.dtype == np.float16
        np.testing.assert_array_equal(half, np.arange(4) + step)


def test_safetensors_reads_safetensors(run: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    found = safetensors.load_file(export(run, "safetensors", "x.safetensors", "parameter/*"))
    assert len(found) == 2 * STEPS
    for step in range(STEPS):
        np.testing.assert_array_equal(found[f"parameter/w@{step}"], matrix(step))


def test_torch_loads_pt_without_unpickling_code(run: Path) -> None:
    torch = pytest.importorskip("torch")
    found = torch.load(export(run, "pt", "x.pt", "parameter/*"), weights_only=True)
    for step in range(STEPS):
        np.testing.assert_array_equal(found[f"parameter/w@{step}"].numpy(), matrix(step))


def test_h5py_reads_statistics_and_values(run: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(export(run, "hdf5", "x.h5")) as file:
        np.testing.assert_array_equal(file["values/parameter/w/1"][:], matrix(1))
        expected = [matrix(step).max() for step in range(STEPS)]
        np.testing.assert_array_equal(file["stats/parameter/w/max"][:], expected)
        np.testing.assert_array_equal(file["stats/loss/value"][:], [1, 1 / 2, 1 / 3])


def test_sqlite_answers_questions(run: Path) -> None:
    base = sqlite3.connect(export(run, "sqlite", "x.db"))
    rows = base.execute("SELECT step, max FROM points WHERE site = 'parameter/w' ORDER BY step")
    assert rows.fetchall() == [(step, float(matrix(step).max())) for step in range(STEPS)]
    losses = base.execute("SELECT value FROM points WHERE site = 'loss' ORDER BY step").fetchall()
    assert losses == [(1 / (step + 1),) for step in range(STEPS)]
    base.close()


def test_csv_and_json_hold_every_point(run: Path) -> None:
    with export(run, "csv", "x.csv", "parameter/w,loss").open(newline="") as file:
        rows = list(csv.DictReader(file))
    points = json.loads(export(run, "json", "x.json", "parameter/w,loss").read_text())
    assert len(rows) == len(points) == 2 * STEPS
    for row, point in zip(rows, points, strict=True):
        assert row["site"] == point["site"]
        if point["site"] == "loss":
            assert float(row["value"]) == point["value"] == 1 / (point["step"] + 1)
        else:
            assert float(row["min"]) == point["min"] == float(matrix(point["step"]).min())


def test_pyarrow_reads_parquet(run: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(export(run, "parquet", "x.parquet")).to_pylist()
    assert sum(row["site"] == "loss" for row in table) == STEPS


def test_tensorboard_reads_its_events(run: Path) -> None:
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = module.EventAccumulator(str(export(run, "tensorboard", "events")))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(STEPS))


def test_a_library_that_is_missing_is_named(run: Path) -> None:
    hide = run / "hide"
    hide.mkdir()
    (hide / "h5py.py").write_text("raise ImportError('hidden', name='h5py')")
    done = tensortap(
        "export", "run", "--to", "hdf5", "-o", "x.h5", folder=run, PYTHONPATH=str(hide)
    )
    assert done.returncode == 3
    assert "--to hdf5 needs h5py" in done.stderr
    assert done.stderr.count("\n") == 1
