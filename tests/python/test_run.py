"""What comes out of a run: arrays, statistics, tensors, answers to near misses."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensortap as tt
from tensortap.runs.arrays import COUNTS, OF_STATS

DTYPES = (
    "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz "
    "int8 int16 int32 int64 uint8 bool complex64 complex128"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def two_ranks(folder: Path) -> None:
    for rank in range(2):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"}
        code = (
            "import sys, numpy as np, tensortap as tt\n"
            "rank = int(sys.argv[2])\n"
            "with tt.record(sys.argv[1], keep='stats|value') as run:\n"
            "    for step in range(rank, 4):\n"
            "        run.log('loss', 10 * rank + step)\n"
            "        run.tensor('x', np.full(2, 100 * rank + run.current_step))\n"
            "        run.step()\n"
            "    run.note(f'rank {rank}')\n"
        )
        subprocess.run([sys.executable, "-c", code, str(folder), str(rank)], check=True, env=env)


@pytest.mark.parametrize("name", DTYPES.split())
def test_tensors_of_every_type_come_back_bit_for_bit(folder: Path, name: str) -> None:
    torch = pytest.importorskip("torch")
    from versions import skip_if_unreadable

    skip_if_unreadable(name)
    dtype = getattr(torch, name)
    size = torch.empty((), dtype=dtype).element_size()
    raw = torch.arange(24 * size, dtype=torch.uint8) % (2 if name == "bool" else 251)
    x = raw.view(dtype).reshape(2, 3, 4)
    with tt.record(folder, keep="value") as run:
        run.tensor("x", x)
        run.tensor("t", x.transpose(0, 2))
        run.tensor("empty", x[:0])
        run.tensor("scalar", x[0, 0, 0])
    with tt.open(folder) as run_read:
        for key, made in (
            ("x", x),
            ("t", x.transpose(0, 2)),
            ("empty", x[:0]),
            ("scalar", x[0, 0, 0]),
        ):
            got = run_read.tensor(key, 0)
            assert got.dtype == dtype
            assert got.shape == made.shape
            bits = made.contiguous().flatten().view(torch.uint8)
            assert got.flatten().view(torch.uint8).equal(bits)
            array = run_read.tensor(key, 0, as_numpy=True)
            assert array.shape == tuple(made.shape)
            assert array.tobytes() == bits.numpy().tobytes()
            assert str(array.dtype) == name


def test_tensors_are_read_without_torch(folder: Path) -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    with tt.record(folder, keep="value") as run:
        run.tensor("x", x)
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import tensortap as tt\n"
        "run = tt.open(sys.argv[1])\n"
        "print(run.tensor('x', 0, as_numpy=True).tolist())\n"
        "try: run.tensor('x', 0)\n"
        "except ImportError as error: print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(folder)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert said == [
        "[[0, 1, 2], [3, 4, 5]]",
        "there is no torch here; as_numpy=True gives a NumPy array",
    ]


def test_every_field_of_a_series_is_that_of_the_statistics(folder: Path) -> None:
    rng = np.random.default_rng(1)
    data = [rng.normal(size=50) for _ in range(300)]
    with tt.record(folder) as run:
        for x in data:
            run.tensor("x", x)
            run.step()
    run_read = tt.open(folder)
    for field in COUNTS + OF_STATS:
        steps, values = run_read.series("x", field)
        assert steps.tolist() == list(range(300))
        assert values.tolist() == [getattr(tt.stats(x), field) for x in data]
    assert run_read.stats("x") == [tt.stats(x) for x in data]
    assert run_read.stats("x", 7) == tt.stats(data[7])


def test_series_are_writable_arrays_of_plain_types(folder: Path) -> None:
    with tt.record(folder) as run:
        run.log("x", 1)
    steps, values = tt.open(folder).series("x")
    assert (steps.dtype, values.dtype) == (np.int64, np.float64)
    values += 1


def test_names_follow_the_glob_and_the_order_of_appearance(folder: Path) -> None:
    with tt.record(folder) as run:
        run.log({"b/x": 1, "a/x": 2, "a/y": 3})
    run_read = tt.open(folder)
    assert run_read.names() == ["b/x", "a/x", "a/y"]
    assert run_read.names("a/*") == ["a/x", "a/y"]
    assert run_read.names("*/x,a/?") == ["b/x", "a/x", "a/y"]
    assert run_read.names("x") == []


def test_ranks_are_joined(folder: Path) -> None:
    two_ranks(folder)
    run_read = tt.open(folder)
    assert run_read.ranks == [0, 1]
    assert run_read.steps.tolist() == [0, 1, 2, 3]
    assert run_read.series("loss")[0].tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert run_read.series("loss", rank=1)[1].tolist() == [11, 12, 13]
    assert run_read.tensor("x", 1, rank=1, as_numpy=True).tolist() == [101, 101]
    assert run_read.info_of(1)["rank"] == 1
    assert [note.rank for note in run_read.notes] == [0, 1]
    assert len(run_read.check().files) == 2
    with pytest.raises(KeyError, match=r"no rank 5; it has \[0, 1\]"):
        run_read.series("loss", rank=5)
    with pytest.raises(KeyError, match=r"no rank 5; it has \[0, 1\]"):
        run_read.stats("x", rank=5)


def test_near_misses_get_a_suggestion(folder: Path) -> None:
    with tt.record(folder) as run:
        run.log("activation/layers.0.attn", 1)
    run_read = tt.open(folder)
    with pytest.raises(KeyError, match=r"did you mean 'activation/layers\.0\.attn'"):
        run_read.series("activation/layer.0.attn")
    with pytest.raises(KeyError, match=r"did you mean 'activation/layers\.0\.attn'"):
        run_read.stats("layers.0.attn")
    with pytest.raises(FileNotFoundError, match=r"did you mean .*run'"):
        tt.open(folder.parent / "rum")
    with pytest.raises(ValueError, match=r"field must be one of value, .* not 'avg'"):
        run_read.series("activation/layers.0.attn", "avg")


def test_a_step_that_is_not_there_names_the_nearest(folder: Path) -> None:
    with tt.record(folder) as run:
        for _ in range(5):
            run.tensor("x", np.ones(2))
            run.step()
    run_read = tt.open(folder)
    with pytest.raises(KeyError, match=r"step 9; the nearest is 4 \(0 … 4\)"):
        run_read.stats("x", 9)
    with pytest.raises(KeyError, match='keep="value"'):
        run_read.tensor("x", 2)


def test_a_live_run_is_read_while_it_is_written(folder: Path) -> None:
    with tt.record(folder) as run:
        run.log("x", 1)
        run.flush()
        run_read = tt.open(folder)
        assert run_read.state == "live"
        assert run_read.series("x")[1].tolist() == [1]
        run.log("x", 2)
        run.log("new", 3)
        run.flush()
        assert run_read.series("x")[1].tolist() == [1]
        run_read.refresh()
        assert run_read.series("x")[1].tolist() == [1, 2]
        assert run_read.names() == ["x", "new"]
    assert run_read.refresh().state == "finished"


READ_ONLY = """
import errno, json, tensortap as tt
told = {}
for name, path in (("write", "there/run/new"), ("record", "there/other")):
    try:
        open(path, "w") if name == "write" else tt.record(path)
    except OSError as error:
        told[name] = str(error)
run = tt.open("there/run")
told["state"], told["x"] = run.state, run.series("x")[1].tolist()
told["value"], told["check"] = run.tensor("t", 0, as_numpy=True).tolist(), bool(run.check())
run.refresh()
print(json.dumps(told))
"""


def test_a_live_run_is_read_through_a_read_only_mount(folder: Path) -> None:
    (folder.parent / "there").mkdir()
    mount = "mount --bind . there && mount -o remount,bind,ro there"
    alone = ["unshare", "-rm", "sh", "-c"]  # gone with the program; needs no rights
    if subprocess.run([*alone, mount], cwd=folder.parent, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here (unshare -rm is refused)")
    with tt.record(folder) as run:
        run.log("x", 1)
        run.tensor("t", np.arange(3), keep="value")
        run.flush()
        said = subprocess.run(
            [*alone, f'{mount} && exec "$0" -c "$1"', sys.executable, READ_ONLY],
            cwd=folder.parent,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    assert os.strerror(errno.EROFS) in told["write"]  # it really is
    assert os.strerror(errno.EROFS) in told["record"]
    assert (told["state"], told["x"], told["value"]) == ("live", [1.0], [0, 1, 2])
    assert told["check"]


def test_a_name_with_control_characters_is_shown_and_not_obeyed(folder: Path) -> None:
    name = "\x1b[31mred\x07\nline\x9b2J\u202eleft"
    with tt.record(folder) as run:
        run.tensor(name, np.array([np.nan]))
        run.step()
    read = tt.open(folder)
    assert read.names() == [name]
    for text in (repr(read), read._repr_html_()):
        assert text.isprintable()
        assert r"\x1b[31mred\x07\nline\x9b2J\u202eleft at step 0" in text


def test_repr_and_html_summarise_the_run(folder: Path) -> None:
    with tt.record(folder) as run:
        for step in range(3):
            run.tensor("fine", np.ones(3))
            run.tensor("bad<", np.array([np.nan if step == 1 else 1.0]))
            run.step()
    run_read = tt.open(folder)
    text = repr(run_read)
    for part in ("3 steps (0 … 2)", "2 sites", "1 rank", "finished", "bad< at step 1"):
        assert part in text
    page = run_read._repr_html_()
    assert "bad&lt; at step 1" in page
    assert "bad<" not in page
    assert run_read.first_nonfinite is not None
    assert run_read.first_nonfinite[:3] == ("bad<", 1, 0)
    run_read.close()
    assert "closed" in repr(run_read)
    with pytest.raises(ValueError, match="closed"):
        run_read.names()


def test_check_finds_a_flipped_bit(folder: Path) -> None:
    with tt.record(folder, keep="value") as run:
        run.tensor("x", np.arange(1000.0))
    assert tt.open(folder).check()
    file = folder / "rank0.tap"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    check = tt.open(folder).check()
    assert not check
    assert check.files[0].first


def test_a_folder_without_a_run_names_the_latest_below_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no run$"):
        tt.open(tmp_path)
    tt.record(tmp_path / "today").close()
    with pytest.raises(FileNotFoundError, match=r"holds no run; .*today'"):
        tt.open(tmp_path)


def test_frames_hold_every_point(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with tt.record(folder) as run:
        for step in range(3):
            run.log("loss", step)
            run.tensor("x", np.full(4, step))
            run.log("mixed", 5)
            run.tensor("mixed", np.full(4, step))
            run.step()
    frame = tt.open(folder).to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 12
    assert frame[frame.name == "loss"]["value"].tolist() == [0, 1, 2]
    assert frame[frame.name == "x"]["max"].tolist() == [0, 1, 2]
    mixed = frame[frame.name == "mixed"]
    assert mixed["value"].dropna().tolist() == [5, 5, 5]
    assert mixed["max"].dropna().tolist() == [0, 1, 2]


def test_frames_without_pandas_say_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tt.record(folder) as run:
        run.log("x", 1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        tt.open(folder).to_frame()


def test_many_threads_share_one_reader(folder: Path) -> None:
    import threading

    with tt.record(folder) as run:
        for step in range(2000):
            run.log("x", step)
            run.step()
    run_read = tt.open(folder)
    results: list[bool] = []

    def work() -> None:
        for _ in range(50):
            results.append(run_read.series("x")[1].sum() == 1999 * 1000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 200


def test_without_numpy_a_run_describes_itself_and_its_graph_is_drawn(folder: Path) -> None:
    two_ranks(folder)
    with tt.record(folder.with_name("modules")) as run:
        for _ in range(2):
            run.tensor("activation/fc", np.ones(3))
            run.step()
    code = (
        "import sys\n"
        "sys.modules['numpy'] = None  # importing it fails\n"
        "import tensortap as tt\n"
        "from tensortap.commands import graph\n"
        "ranks, modules = tt.open(sys.argv[1]), tt.open(sys.argv[2])\n"
        "print(repr(ranks)); print(ranks._repr_html_()); print(ranks.cost)\n"
        "print(list(ranks.steps), [list(part) for part in ranks.series('loss')])\n"
        "for color in ('nan', 'size', 'time', 'std'):\n"
        "    graph.main({'out': sys.argv[3], 'color': color}, [sys.argv[2]])\n"
        "try:\n"
        "    ranks.stats('x', 7)\n"
        "except KeyError as error:\n"
        "    print(error.args[0])\n"
    )
    chart = folder.with_name("graph.dot")
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(folder.with_name("modules")), str(chart)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    with tt.open(folder) as ranks:
        assert done.stdout.splitlines() == [
            repr(ranks),
            ranks._repr_html_(),
            str(ranks.cost),
            f"{ranks.steps.tolist()} {[part.tolist() for part in ranks.series('loss')]}",
            "x was not recorded at step 7; the nearest is 3 (0 … 3)",
        ]
    assert "fc" in chart.read_text()
