"""Metrics go into HDF5 and come back exactly."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from programs import forked

torch = pytest.importorskip("torch")
h5py = pytest.importorskip("h5py")

import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from tensortap.monitor import StorageManager  # noqa: E402

STEPS: dict[int, dict[str, Any]] = {
    0: {"activation/layers.0.fc/mean": 0.1, "loss": 1.5, "RCC (W_t-W_0)x_t/a.weight/l2norm": 2.0},
    20: {"activation/layers.0.fc/mean": 1 / 3, "activation/layers.0.fc/mean[max]": 1e-300},
    40: {"loss": math.inf, "activation/[root module]/x/y": -0.0, "late/größe": math.nan},
}


def stored(steps: dict[int, dict[str, Any]]) -> StorageManager:
    storage = StorageManager()
    storage.load_metrics({step: dict(entry) for step, entry in steps.items()})
    return storage


def same(a: Any, b: Any) -> bool:
    """Say if two nests of numbers hold the same bits."""
    if isinstance(a, dict):
        return bool(a.keys() == b.keys()) and all(same(a[key], b[key]) for key in a)
    return np.float64(a).tobytes() == np.float64(b).tobytes()


def by_key(steps: dict[int, dict[str, Any]]) -> dict[str, dict[int, Any]]:
    out: dict[str, dict[int, Any]] = {}
    for step, entry in steps.items():
        for key, value in entry.items():
            out.setdefault(key, {})[step] = value
    return out


@pytest.mark.parametrize("condensed", [True, False])
def test_a_file_gives_back_every_key_step_and_bit(tmp_path: Path, condensed: bool) -> None:
    path = tmp_path / "metrics.h5"
    stored(STEPS).save_hdf5(path, condensed=condensed)
    found = StorageManager.load_hdf5(path)
    assert same(found, by_key(STEPS))
    assert all(type(step) is int for values in found.values() for step in values)
    assert all(type(value) is float for values in found.values() for value in values.values())


KEYS = st.text(
    st.sampled_from("ab./%0 keysvalu\N{GREEK SMALL LETTER ALPHA}[]\\"), min_size=1, max_size=12
)


@hypothesis.given(
    st.dictionaries(
        st.integers(0, 10**9), st.dictionaries(KEYS, st.floats(), max_size=4), max_size=4
    ),
    st.booleans(),
)
def test_any_key_and_any_number_come_back(
    tmp_path_factory: pytest.TempPathFactory, steps: dict[int, dict[str, float]], condensed: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "metrics.h5"
    stored(steps).save_hdf5(path, condensed=condensed)
    assert same(StorageManager.load_hdf5(path), by_key(steps))


def test_the_layout_is_one_group_for_each_key_with_two_datasets_of_doubles(tmp_path: Path) -> None:
    path = tmp_path / "metrics.h5"
    stored(STEPS).save_hdf5(str(path))
    with h5py.File(path) as file:
        group = file["activation/layers.0.fc/mean"]
        assert set(group) == {"keys", "values"}
        assert group["keys"].dtype == group["values"].dtype == np.float64
        assert group["keys"][()].tolist() == [0, 20]
        assert group["values"][()].tolist() == [0.1, 1 / 3]


def test_entries_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.h5"
    stored(STEPS).save_hdf5(path)
    assert set(StorageManager.read_hdf5_entry_keys(path)) == set(by_key(STEPS))
    found = StorageManager.read_hdf5_entry(path, "loss")
    assert found is not None
    assert found[0].tolist() == [0, 40]
    assert found[1].tolist() == [1.5, math.inf]
    assert StorageManager.read_hdf5_entry(path, "nothing") is None
    assert StorageManager.read_hdf5_entry(path, "activation") is None


def test_files_of_torch_module_monitor_are_read(tmp_path: Path) -> None:
    theirs = pytest.importorskip("torch_module_monitor")
    storage = theirs.StorageManager()
    storage.load_metrics({step: dict(entry) for step, entry in STEPS.items()})
    storage.save_hdf5(str(tmp_path / "theirs.h5"))
    found = StorageManager.load_hdf5(tmp_path / "theirs.h5")
    assert same(found, by_key(STEPS))
    assert set(StorageManager.read_hdf5_entry_keys(tmp_path / "theirs.h5")) == set(found)


def test_our_files_are_read_by_torch_module_monitor_key_by_key(tmp_path: Path) -> None:
    theirs = pytest.importorskip("torch_module_monitor")
    stored(STEPS).save_hdf5(tmp_path / "ours.h5")
    for key, values in by_key(STEPS).items():
        keys, numbers = theirs.StorageManager.read_hdf5_entry(str(tmp_path / "ours.h5"), key)
        assert same(dict(zip(keys.tolist(), numbers.tolist(), strict=True)), values)


def test_a_step_that_has_not_ended_is_saved_aggregated(tmp_path: Path) -> None:
    storage = StorageManager()
    storage.log_scalar(3, "loss", 1.0)
    storage.log_scalar(3, "loss", 2.0)
    storage.log_tensor(3, "t", torch.tensor([[1.0, 3.0]]))
    storage.save_hdf5(tmp_path / "metrics.h5")
    assert StorageManager.load_hdf5(tmp_path / "metrics.h5") == {"loss": {3: 1.5}, "t": {3: 2.0}}
    assert storage.log_dict[3]["loss"] == [1.0, 2.0]


def test_metrics_are_loaded_into_an_empty_storage_only() -> None:
    storage = stored(STEPS)
    with pytest.raises(ValueError, match="clear"):
        storage.load_metrics({})
    storage.clear()
    assert storage.get_all_metrics() == {}
    storage.load_metrics({1: {"a": 1.0}})
    assert storage.has_step(1)
    assert not storage.has_step(2)
    assert storage.get_step_metrics(1) == {"a": 1.0}
    assert storage.get_step_metrics(2) == {}
    assert storage.condensed_log_dict() == {"a": {1: 1.0}}
    storage.create_step_entry(2)
    assert storage.get_all_metrics() == {1: {"a": 1.0}, 2: {}}


def test_a_step_is_aggregated_by_the_functions_of_its_keys() -> None:
    storage = StorageManager()
    for number in (1, 2, 6):
        storage.log_scalar(0, "mean", number)
        storage.log_scalar(0, "most", number, max)
    storage.log_tensor(0, "t", torch.tensor([1.0, 5.0]), lambda x: {"[n]": len(x)})
    assert set(storage.aggregation_fns) == {"most", "t"}
    storage.aggregate_step(0)
    storage.aggregate_step(7)
    assert storage.log_dict == {0: {"mean": 3, "most": 6, "t[n]": 2}}


FULL = """
from tensortap.monitor import StorageManager
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
storage = StorageManager()
storage.load_metrics({step: {"loss": 1.0} for step in range(1000)})
try:
    storage.save_hdf5("metrics.h5")
except OSError as error:
    print(error.strerror)
"""


def test_a_full_disk_is_an_error_and_no_crash(tmp_path: Path) -> None:
    done = forked(FULL, tmp_path)
    assert (done.returncode, done.stdout) == (0, "File too large\n")
