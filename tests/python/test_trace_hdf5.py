"""H5PYSaverCallback, read back by h5py: types, shapes, options, and what can go wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")
h5py = pytest.importorskip("h5py")
import numpy as np  # noqa: E402
from programs import forked  # noqa: E402
from torch import nn  # noqa: E402
from trace_models import C, Small  # noqa: E402

from tensortap.trace import (  # noqa: E402
    GlobalVariableResult,
    H5PYSaverCallback,
    ModelTracer,
    Variable,
)


def saved(path, name, *batches, **options):
    with H5PYSaverCallback(path, **options) as saver:
        at = 0
        for batch in batches:
            iterations = list(range(at + 1, at + len(batch) + 1))
            lists = (list(batch), iterations, [0] * len(batch))
            saver(name, *lists)
            assert lists == ([], [], [])
            at += len(batch)
    return h5py.File(path, "r")


def test_each_value_is_a_row_with_its_iteration_and_rank(tmp_path):
    model = Small()
    saver = H5PYSaverCallback(tmp_path / "a" / "b.h5")
    with ModelTracer(model, ["forward.x", "fc"], post_gather_callbacks=[saver]) as tracer:
        for i in range(5):
            model(torch.full((2, C), float(i)))
    assert tracer.results["forward.x"] == GlobalVariableResult([], [], [])
    assert saver.datasets["forward.x"].shape == (5, 2, C)
    assert saver.dataset_file == tmp_path / "a" / "b.h5"
    saver.close()
    saver.close()
    with h5py.File(tmp_path / "a" / "b.h5", "r") as file:
        assert file["forward.x"][:, 0, 0].tolist() == [0, 1, 2, 3, 4]
        assert file["forward.x"].maxshape == (None, None, None)
        assert file["forward.x_iterations"][:].tolist() == [1, 2, 3, 4, 5]
        assert file["forward.x_iterations"].dtype == np.int64
        assert file["forward.x_ranks"][:].tolist() == [0] * 5
        assert file["forward.x_shapes"][:].tolist() == [[2, C]] * 5
        assert set(file) == {f"{n}{e}" for n in ("forward.x", "fc") for e in _ENDS}


_ENDS = ("", "_iterations", "_ranks", "_shapes")


def test_a_slash_in_a_name_makes_no_groups(tmp_path):
    with saved(tmp_path / "x.h5", "a/b", [torch.ones(2)]) as file:
        assert set(file) == {f"a|b{end}" for end in _ENDS}


def test_rows_of_a_stacked_variable_are_values(tmp_path):
    from tensortap.trace import stack_tensors

    saver = H5PYSaverCallback(tmp_path / "v.h5")
    variable = Variable(
        "forward.x", gather_interval=2, post_gather_callbacks=[stack_tensors, saver]
    )
    model = Small()
    with saver, ModelTracer(model, variable):
        for i in range(4):
            model(torch.full((2, C), float(i)))
        assert saver.datasets["forward.x"].shape == (4, 2, C)
    with h5py.File(tmp_path / "v.h5", "r") as file:
        assert file["forward.x"][:, 0, 0].tolist() == [0, 1, 2, 3]
        assert file["forward.x_iterations"][:].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2])
def test_floats_become_the_float_type(tmp_path, dtype):
    value = torch.tensor([[0.5, -2.0]]).to(dtype)
    with saved(tmp_path / "f.h5", "x", [value]) as file:
        assert file["x"].dtype == np.float32
        assert file["x"][0].tolist() == [[0.5, -2.0]]
    with saved(tmp_path / "d.h5", "x", [value], float_dtype=np.float64) as file:
        assert file["x"].dtype == np.float64


@pytest.mark.parametrize(
    "value",
    [torch.tensor([True, False]), torch.tensor([1, 0]), torch.tensor([1, 0]).to(torch.uint8)],
)
def test_integers_and_bool_become_the_int_type(tmp_path, value):
    with saved(tmp_path / "i.h5", "x", [value], int_dtype=np.int16) as file:
        assert file["x"].dtype == np.int16
        assert file["x"][0].tolist() == [1, 0]


def test_integers_that_do_not_fit_widen_the_dataset_with_one_warning(tmp_path):
    large = torch.tensor([2**40, -1])
    with pytest.warns(RuntimeWarning, match="int64") as told:
        file = saved(tmp_path / "w.h5", "x", [torch.tensor([1, 2])], [large], [large])
    assert len(told) == 1
    with file:
        assert file["x"].dtype == np.int64
        assert file["x"][:].tolist() == [[1, 2], [2**40, -1], [2**40, -1]]


def test_unsigned_integers_beyond_int64_do_not_turn_negative(tmp_path):
    numbers = [1, 2**63 + 1]
    with pytest.warns(RuntimeWarning, match="uint64"):
        file = saved(tmp_path / "u.h5", "x", [torch.tensor(numbers, dtype=torch.uint64)])
    with file:
        assert file["x"][0].tolist() == numbers


def test_a_complex_number_is_told_of_as_a_complex_tensor_is(tmp_path):
    with pytest.warns(RuntimeWarning, match="complex128"):
        saved(tmp_path / "n.h5", "x", [1 + 2j]).close()


def test_complex_keeps_its_type(tmp_path):
    with pytest.warns(RuntimeWarning, match="complex"):
        file = saved(tmp_path / "c.h5", "x", [torch.tensor([1 + 2j])])
    with file:
        assert file["x"].dtype == np.complex64
        assert file["x"][0, 0] == 1 + 2j


def test_arrays_keep_their_type_and_numbers_texts_and_none_are_stored(tmp_path):
    with saved(tmp_path / "n.h5", "a", [np.arange(3, dtype=np.uint16)]) as file:
        assert file["a"].dtype == np.uint16
    with saved(tmp_path / "f.h5", "f", [1.5, 2.5]) as file:
        assert (file["f"].dtype, file["f"][:].tolist()) == (np.float32, [1.5, 2.5])
    with saved(tmp_path / "i.h5", "i", [1, True]) as file:
        assert (file["i"].dtype, file["i"][:].tolist()) == (np.int32, [1, 1])
    with saved(tmp_path / "t.h5", "t", ["one", None, "drei ✓"]) as file:
        assert file["t"].asstr()[:].tolist() == ["one", "None", "drei ✓"]
    with saved(tmp_path / "m.h5", "m", [1.5, None, "x"]) as file:
        assert file["m"][:].tolist() == [1.5]
        assert file["m__text"].asstr()[:].tolist() == ["None", "x"]
        assert file["m__text_iterations"][:].tolist() == [2, 3]


def test_larger_values_grow_the_dataset_and_true_shapes_are_kept(tmp_path):
    parts = [torch.ones(2, 3), torch.ones(4, 1), torch.ones(1, 5)]
    with saved(tmp_path / "g.h5", "x", *[[p] for p in parts]) as file:
        assert file["x"].shape == (3, 4, 5)
        assert file["x_shapes"][:].tolist() == [[2, 3], [4, 1], [1, 5]]
        for i, part in enumerate(parts):
            expected = np.zeros((4, 5))
            expected[: part.shape[0], : part.shape[1]] = 1
            np.testing.assert_array_equal(file["x"][i], expected)


def test_another_number_of_dimensions_goes_to_a_dataset_of_its_own(tmp_path):
    batch = [torch.ones(2), torch.ones(2, 2), torch.tensor(3.0)]
    with saved(tmp_path / "r.h5", "x", batch, batch) as file:
        assert file["x"].shape == (2, 2)
        assert file["x__2d"].shape == (2, 2, 2)
        assert file["x__0d"][:].tolist() == [3, 3]
        assert file["x__2d_iterations"][:].tolist() == [2, 5]


def test_empty_values_are_stored(tmp_path):
    with saved(tmp_path / "e.h5", "x", [torch.ones(0, 3)], [torch.ones(2, 3)]) as file:
        assert file["x"].shape == (2, 2, 3)
        assert file["x_shapes"][:].tolist() == [[0, 3], [2, 3]]


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip", "compression_opts": 7},
        {"compression": "gzip", "shuffle": True},
        {"compression": "lzf"},
        {"shuffle": True},
    ],
)
@pytest.mark.parametrize("size", [3, 300])
def test_every_filter_gives_the_same_values(tmp_path, options, size):
    values = [torch.randn(size, size) for _ in range(3)]
    with saved(tmp_path / "o.h5", "x", values[:2], values[2:], **options) as file:
        assert file["x"].compression == options.get("compression")
        assert file["x"].shuffle == options.get("shuffle", False)
        for row, value in zip(file["x"][:], values, strict=True):
            np.testing.assert_array_equal(row, value.numpy())


def test_large_values_are_one_chunk_each_and_small_ones_share(tmp_path):
    with saved(tmp_path / "l.h5", "x", [torch.randn(512, 512)] * 2) as file:
        assert file["x"].chunks == (1, 512, 512)
        np.testing.assert_array_equal(file["x"][0], file["x"][1])
    with saved(tmp_path / "s.h5", "x", [torch.randn(4)] * 2) as file:
        assert file["x"].chunks[0] > 100


def test_an_existing_file_is_replaced_or_refused(tmp_path):
    path = tmp_path / "x.h5"
    path.write_bytes(b"mine")
    with pytest.raises(ValueError, match="exists"):
        H5PYSaverCallback(path, existing_ok=False)
    assert path.read_bytes() == b"mine"
    H5PYSaverCallback(path).close()
    with h5py.File(path, "r") as file:
        assert list(file) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "plain").write_text("a file")
    with pytest.raises(OSError, match="plain"):
        H5PYSaverCallback(tmp_path / "plain" / "x.h5")


def test_what_hdf5_cannot_hold_is_named(tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            odd = {"a": 1}
            return x

    model = Odd()
    saver = H5PYSaverCallback(tmp_path / "x.h5")
    with (
        saver,
        pytest.raises(TypeError, match=r"H5PYSaverCallback.*'forward.odd'.*dict"),
        ModelTracer(model, ["forward.odd"], post_gather_callbacks=[saver]),
    ):
        model(torch.ones(1))


def test_readers_follow_a_swmr_file(tmp_path):
    path = tmp_path / "s.h5"
    with pytest.raises(ValueError, match="layout"):
        H5PYSaverCallback(path, swmr=True)
    with H5PYSaverCallback(path, swmr=True, layout={"x": 2, "i": (0, np.int32)}) as saver:
        saver("x", [torch.ones(2, 3)], [1], [0])
        with h5py.File(path, "r", swmr=True) as reader:
            assert reader["x"].shape == (1, 2, 3)
            saver("x", [torch.ones(2, 3)], [2], [0])
            saver("i", [7], [2], [0])
            reader["x"].refresh()
            assert reader["x"].shape == (2, 2, 3)
        with pytest.raises(ValueError, match="'y' is not in layout"):
            saver("y", [torch.ones(2)], [1], [0])


WRITER = """
import sys, torch
from tensortap.trace import H5PYSaverCallback, ModelTracer
model = torch.nn.Linear(300, 300)
saver = H5PYSaverCallback(sys.argv[1])
with ModelTracer(model, ["forward.input", "forward"], post_gather_callbacks=[saver]) as tracer:
    for i in range(1, 100000):
        model(torch.full((300, 300), float(i)))
        print(i, flush=True)
"""


@pytest.mark.parametrize("turn", range(3))
def test_kill_9_leaves_a_file_that_opens_up_to_the_last_flush(tmp_path, turn):
    path = tmp_path / "k.h5"
    program = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    done = 0
    until = time.monotonic() + 0.4 + 0.37 * turn
    for line in program.stdout:
        done = int(line)
        if done > 5 and time.monotonic() > until:
            break
    program.send_signal(signal.SIGKILL)
    done = max([done, *(int(line) for line in program.stdout.read().split() if line.isdigit())])
    program.wait()
    with h5py.File(path, "r") as file:  # plainly
        for name in ("forward.input", "forward"):
            assert len(file[name]) >= done - 1
            assert len(file[f"{name}_iterations"]) >= done - 1
        whole = file["forward.input"][: done - 1, 0, 0]
        assert whole.tolist() == list(range(1, done))


FULL = """
import sys, torch
from tensortap.trace import H5PYSaverCallback, ModelTracer
model = torch.nn.Linear(100, 256)
saver = H5PYSaverCallback(sys.argv[1])
done = 0
try:
    with ModelTracer(model, ["forward.input", "forward"], post_gather_callbacks=[saver]) as tracer:
        for i in range(1, 1000):
            model(torch.full((256, 100), float(i)))
            done = i
except OSError as error:
    print(done, type(error).__name__, error, flush=True)
print("on", len(tracer.results["forward.input"].iterations), flush=True)
import os
os._exit(0)
"""


def test_a_full_disk_is_an_error_that_names_the_variable_and_keeps_the_file(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)])
    if mounted.returncode != 0:
        pytest.skip("mounting a small tmpfs was refused")
    try:
        done = forked(FULL, tmp_path, str(folder / "x.h5"))
        assert "H5PYSaverCallback" in done.stdout, done.stdout + done.stderr
        assert "forward" in done.stdout
        count = int(done.stdout.split()[0])
        assert count > 5
        with h5py.File(folder / "x.h5", "r") as file:
            rows = file["forward.input"][: count - 1, 0, 0]
            assert rows.tolist() == list(range(1, count))
    finally:
        subprocess.run(["umount", str(folder)], check=True)
