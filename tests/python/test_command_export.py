"""Exports are read back by the tools they are for."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from commands import PROGRAM, tensortap

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
    assert not list(folder.glob(".tensortap*"))
    return folder / out


def test_numpy_reads_npy(run: Path) -> None:
    out = export(run, "npy", "arrays", "parameter/*")
    assert len(list(out.iterdir())) == 2 * STEPS
    for step in range(STEPS):
        np.testing.assert_array_equal(np.load(out / f"parameter_w@{step}.npy"), matrix(step))
        half = np.load(out / f"parameter_h@{step}.npy")
        assert half.dtype == np.float16
        np.testing.assert_array_equal(half, np.arange(4) + step)


def test_python_reads_names_with_quotes_and_commas_from_csv(tmp_path: Path) -> None:
    name = 'a "quoted", name'
    with tt.record(tmp_path / "run") as recording:
        recording.log(name, 1.5)
    out = export(tmp_path, "csv", "out.csv")
    with out.open(newline="") as file:
        rows = [(row["site"], row["value"]) for row in csv.DictReader(file)]
    assert rows == [(name, "1.5")]


@pytest.mark.parametrize("to", ["npy", "safetensors", "hdf5"])
def test_evicted_values_are_counted(tmp_path: Path, to: str) -> None:
    if to == "hdf5":
        pytest.importorskip("h5py")
    with tt.record(tmp_path / "run", keep="value", max_bytes=3 << 20) as recording:
        for step in range(12):
            recording.tensor("w", np.full(100000, step, np.float32))
            recording.step()
            recording.flush()
    done = tensortap("export", "run", "--to", to, "-o", "out", folder=tmp_path)
    assert done.returncode == 0
    there = len(READ[to](tmp_path / "out"))
    assert 0 < there < 12
    assert done.stderr == (
        f"tensortap: {12 - there} values were evicted to stay within max_bytes\n"
    )


def names(path: Path) -> list[str]:
    """Give the tensors of a safetensors file."""
    with path.open("rb") as file:
        return list(json.loads(file.read(int.from_bytes(file.read(8), "little"))))


def table(path: Path) -> list[str]:
    """Give the rows of an SQLite file."""
    base = sqlite3.connect(path)
    rows = [str(row) for row in base.execute("SELECT site, step FROM points")]
    base.close()
    return rows


def groups(path: Path) -> list[str]:
    """Give the values of w in an HDF5 file."""
    import h5py

    with h5py.File(path) as file:
        return list(file["values/w"])


def saved(path: Path) -> list[str]:
    """Give the tensors of a .pt file."""
    import torch

    return list(torch.load(path, weights_only=True))


READ: dict[str, Callable[[Path], Sequence[object]]] = {
    "csv": lambda path: path.read_text().splitlines()[1:],
    "json": lambda path: json.loads(path.read_text())["points"],
    "npy": lambda path: list(path.iterdir()),
    "safetensors": names,
    "sqlite": table,
    "hdf5": groups,
    "pt": saved,
}
LIBRARIES = {"hdf5": "h5py", "pt": "torch"}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a run of twelve values, with one flipped bit in a chunk and one in a value."""
    folder = tmp_path_factory.mktemp("damaged")
    with tt.record(folder / "run", keep="stats|value") as recording:
        for step in range(12):
            recording.tensor("w", np.full(1000, step, np.float32))
            recording.step()
            recording.flush()  # a chunk each
    file = folder / "run" / "rank0.tap"
    content = bytearray(file.read_bytes())
    content[content.index(np.full(1000, 3, np.float32).tobytes()) + 100] ^= 1
    least = np.float32(7).tobytes()
    places = [i for i in range(len(content)) if content.startswith(least, i)]
    after = content.index(np.full(1000, 7, np.float32).tobytes()) + 4000
    before = content.index(np.full(1000, 8, np.float32).tobytes())
    content[next(i for i in places if after <= i < before)] ^= 1
    file.write_bytes(content)
    return folder


@pytest.mark.parametrize("to", READ)
def test_a_damaged_run_is_exported_as_a_whole_or_on_request_in_part(damaged: Path, to: str) -> None:
    pytest.importorskip(LIBRARIES.get(to, "numpy"))
    words = ("export", "run", "w", "--to", to, "-o", f"out.{to}")
    done = tensortap(*words, folder=damaged)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "cannot be read, the file is damaged" in done.stderr
    assert done.stderr.endswith("; --partial exports the rest\n")
    assert sorted(os.listdir(damaged)) == ["run"]
    done = tensortap(*words, "--partial", folder=damaged)
    lost = 1 if to in ("csv", "json", "sqlite") else 2
    assert done.returncode == 1
    assert done.stderr == (
        "tensortap: 1 point could not be read and is missing\n"
        if lost == 1
        else "tensortap: 2 points could not be read and are missing\n"
    )
    out = damaged / f"out.{to}"
    assert len(READ[to](out)) == 12 - lost
    shutil.rmtree(out) if to == "npy" else out.unlink()


@pytest.mark.parametrize("to", ["csv", "json", "safetensors", "sqlite", "hdf5", "pt", "parquet"])
def test_an_export_never_writes_through_a_link(run: Path, to: str) -> None:
    pytest.importorskip({**LIBRARIES, "parquet": "pyarrow"}.get(to, "numpy"))
    precious = run / "precious"
    precious.write_text("precious")
    end = ".parquet" if to == "parquet" else ""  # else it is a folder
    for name in (f"out{end}.part", f"link{end}"):
        (run / name).symlink_to("precious")
    (run / f"nowhere{end}").symlink_to("nothing")
    export(run, to, f"out{end}", "parameter/w")
    for name in (f"link{end}", f"nowhere{end}"):
        done = tensortap("export", "run", "parameter/w", "--to", to, "-o", name, folder=run)
        assert done.returncode == 3
        assert done.stderr == (
            f"tensortap: {name}: a symbolic link is not written through; name its file\n"
        )
    assert precious.read_text() == "precious"
    assert not (run / "nothing").exists()
    assert (run / f"out{end}").stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    """Give the umask, which can only be read by setting it."""
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def test_names_that_give_one_file_name_are_told_apart(tmp_path: Path) -> None:
    names = ["a/b", "a_b", "long/" + "x" * 300 + "/1", "long/" + "x" * 301 + "/1"]
    with tt.record(tmp_path / "run", keep="value") as recording:
        for step in range(2):
            for i, name in enumerate(names):
                recording.tensor(name, np.array([step, i]))
            recording.step()
    out = export(tmp_path, "npy", "arrays")
    found = sorted(np.load(path).tolist() for path in out.iterdir())
    assert found == [[step, i] for step in range(2) for i in range(len(names))]
    assert np.load(out / "a_b@1~2.npy").tolist() == [1, 1]


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
    points = json.loads(export(run, "json", "x.json", "parameter/w,loss").read_text())["points"]
    assert len(rows) == len(points) == 2 * STEPS
    for row, point in zip(rows, points, strict=True):
        assert row["site"] == point["site"]
        if point["site"] == "loss":
            assert float(row["value"]) == point["value"] == 1 / (point["step"] + 1)
        else:
            assert float(row["min"]) == point["min"] == float(matrix(point["step"]).min())


def test_pyarrow_and_pandas_read_parquet(run: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pandas = pytest.importorskip("pandas")
    out = export(run, "parquet", "x.parquet")
    table = parquet.read_table(out)
    assert {str(table.schema.field(name).type) for name in ("min", "l2")} == {"double"}
    frame = pandas.read_parquet(out)
    losses = frame[frame["site"] == "loss"]
    assert losses["value"].tolist() == [1 / (step + 1) for step in range(STEPS)]
    weights = frame[frame["site"] == "parameter/w"]
    assert weights["step"].tolist() == list(range(STEPS))
    assert weights["min"].tolist() == [float(matrix(step).min()) for step in range(STEPS)]
    assert set(weights["dtype"]) == {"float32"}
    assert set(weights["shape"]) == {"5x7"}
    assert weights["time"].dt.year.min() > 2020


def test_tensorboard_reads_its_events(run: Path) -> None:
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pytest.importorskip("torch")
    events = module.EventAccumulator(str(export(run, "tensorboard", "events")))
    events.Reload()
    losses = events.Scalars("loss")
    assert [event.step for event in losses] == list(range(STEPS))
    np.testing.assert_allclose([event.value for event in losses], [1, 1 / 2, 1 / 3])
    tops = [event.value for event in events.Scalars("parameter:w/max")]
    np.testing.assert_allclose(tops, [matrix(step).max() for step in range(STEPS)])


@pytest.fixture
def hist(tmp_path: Path) -> Path:
    """Give a run with histograms: zeros, both signs, a gap between."""
    with tt.record(tmp_path / "run", keep="stats|hist") as recording:
        for step in range(STEPS):
            recording.tensor("parameter/w", np.float32([-8, -8, 0, 0, 0, 1, 1.1, 100]) * (step + 1))
            recording.step()
    return tmp_path


def test_tensorboard_shows_histograms_and_a_group_a_site(hist: Path) -> None:
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pytest.importorskip("torch")
    folder = str(export(hist, "tensorboard", "events", "parameter/*"))
    events = module.EventAccumulator(folder, {"histograms": 0})  # 0: keep them all
    events.Reload()
    tags = events.Tags()
    assert tags["histograms"] == ["parameter/w"]
    assert {tag.split("/")[0] for tag in tags["scalars"]} == {"parameter:w"}
    kept = events.Histograms("parameter/w")
    assert [event.step for event in kept] == list(range(STEPS))
    first = kept[0].histogram_value
    assert first.num == 8
    assert first.min <= -8 < 100 <= first.max
    limits, counts = first.bucket_limit, first.bucket
    assert list(limits) == sorted(set(limits))
    edges = [-np.inf, *limits]
    data = np.float64([-8, -8, 0, 0, 0, 1, 1.1, 100])
    for low, high, count in zip(edges, limits, counts, strict=False):
        if high <= 0:  # above zero the lower edge belongs to a bin
            assert count == ((data > low) & (data <= high)).sum(), (low, high)
    assert sum(counts) == len(data)


def test_other_formats_hold_histograms_where_they_can(hist: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with tt.open(hist / "run") as opened:
        bins = opened.histogram("parameter/w", 1)
    with h5py.File(export(hist, "hdf5", "h.h5", "parameter/*")) as file:
        assert [tuple(row) for row in file["histograms/parameter/w/1"][:]] == bins
    base = sqlite3.connect(export(hist, "sqlite", "h.db", "parameter/*"))
    asked = "SELECT low, high, count FROM histograms WHERE site = ? AND step = 1 ORDER BY low, high"
    rows = base.execute(asked, ("parameter/w",)).fetchall()
    base.close()
    assert rows == bins
    points = json.loads(export(hist, "json", "h.json", "parameter/*").read_text())["points"]
    assert [tuple(row) for row in points[1]["histogram"]] == bins


def test_ranks_and_calls_stay_apart_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    h5py = pytest.importorskip("h5py")
    torch = pytest.importorskip("torch")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        with tt.record(tmp_path / "run", keep="stats|value") as recording:
            for call in range(2):
                recording.tensor("x", np.full(3, 10.0 * rank + call))
            recording.step()
    whole = {
        f"x@0{call}@rank{rank}": 10.0 * rank + c
        for rank in range(2)
        for c, call in enumerate(["", ".1"])
    }
    kept = torch.load(export(tmp_path, "pt", "x.pt", "x"), weights_only=True)
    assert {name: float(tensor[0]) for name, tensor in kept.items()} == whole
    with h5py.File(export(tmp_path, "hdf5", "x.h5", "x")) as file:
        assert {f"x@{name}": float(file["values/x"][name][0]) for name in file["values/x"]} == whole
        assert file["stats/x/rank1/mean"][:].tolist() == [10, 11]
    base = sqlite3.connect(export(tmp_path, "sqlite", "x.db", "x"))
    rows = base.execute("SELECT rank, call, mean, dtype FROM points ORDER BY rank, call").fetchall()
    base.close()
    assert rows == [(rank, call, 10 * rank + call, "float64") for rank in (0, 1) for call in (0, 1)]


def test_a_forked_child_stays_apart_from_its_parent(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    torch = pytest.importorskip("torch")
    with tt.record(tmp_path / "run", keep="stats|value", follow_fork=True) as recording:
        child = os.fork()
        recording.tensor("x", np.full(3, 1.0 if child else 2.0))
        if child == 0:
            recording.close()
            os._exit(0)
        os.waitpid(child, 0)
    whole = {"x@0@rank0": 1.0, f"x@0@rank0.{child}": 2.0}
    kept = torch.load(export(tmp_path, "pt", "x.pt", "x"), weights_only=True)
    assert {name: float(tensor[0]) for name, tensor in kept.items()} == whole
    with h5py.File(export(tmp_path, "hdf5", "x.h5", "x")) as file:
        assert {f"x@{name}": float(file["values/x"][name][0]) for name in file["values/x"]} == whole
        assert file[f"stats/x/rank0.{child}/mean"][:].tolist() == [2]


def test_tensorboard_shows_a_forked_child_as_a_curve_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tt.record(tmp_path / "run", follow_fork=True) as recording:
        child = os.fork()
        recording.log("x", 1.0 if child else 2.0)
        if child == 0:
            recording.close()
            os._exit(0)
        os.waitpid(child, 0)
    events = accumulator.EventAccumulator(str(export(tmp_path, "tensorboard", "events", "x")))
    events.Reload()
    found = {tag: [e.value for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert found == {"x": [1.0], f"rank0.{child}/x": [2.0]}


PYTHONS_OWN = ("sqlite", "pt", "hdf5")


@pytest.mark.parametrize("to", [*PYTHONS_OWN, "csv", "safetensors"])
def test_a_pipe_gets_the_bytes_and_stays_a_pipe(run: Path, to: str) -> None:
    if to in LIBRARIES:
        pytest.importorskip(LIBRARIES[to])
    os.mkfifo(run / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((run / "pipe").read_bytes()), daemon=True)
    reader.start()
    done = tensortap("export", "run", "parameter/w", "--to", to, "-o", "pipe", folder=run)
    reader.join(timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert (run / "pipe").is_fifo()
    assert to in PYTHONS_OWN or got[0] == export(run, to, "file", "parameter/w").read_bytes()
    assert len(got[0]) > 100


@pytest.mark.parametrize("to", [*PYTHONS_OWN, "csv", "safetensors"])
def test_a_device_that_is_full_is_an_error_and_stays_there(run: Path, to: str) -> None:
    if to in LIBRARIES:
        pytest.importorskip(LIBRARIES[to])
    try:  # one of our own: what is under test once replaced the real one
        os.mknod(run / "full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
        (run / "full").open("wb").close()
    except OSError:
        pytest.skip("only root makes devices, and not on every file system")
    done = tensortap("export", "run", "parameter/w", "--to", to, "-o", "full", folder=run)
    assert done.returncode == 3
    assert done.stderr == "tensortap: full: No space left on device\n"
    assert (run / "full").is_char_device()
    assert not list(run.glob(".tensortap*"))


@pytest.mark.parametrize("to", ["csv", "json", "safetensors", "sqlite", "hdf5", "pt"])
def test_a_full_disk_leaves_no_file_and_no_part_of_one(run: Path, to: str) -> None:
    for library in {"hdf5": ["h5py"], "pt": ["torch"]}.get(to, []):
        pytest.importorskip(library)
    words = ["export", "run", "--to", to, "-o", "out"]
    before = sorted(os.listdir(run))
    done = subprocess.run(  # the system refuses files of more than a block, as a full disk does
        ["sh", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "sh", PROGRAM, *words],
        cwd=run,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("tensortap: out: ")
    assert sorted(os.listdir(run)) == before


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
