"""Disks that are full, folders that vanish: one warning, and the program goes on."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tensortap as tt
from tensortap.runs.record import Recording


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a folder with room for 1 MB; a limit on the size of files where mounts are refused."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True).returncode == 0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if not is_mounted:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    yield folder
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    if is_mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def one_warning(text: str) -> Iterator[None]:
    """Hold that exactly one warning was given, and that it has this text in it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert [str(w.message).count(text) for w in caught] == [1]
    assert caught[0].category is RuntimeWarning


def record_much(run: Recording) -> None:
    for step in range(200):
        run.log("step", step)
        run.tensor("x", np.full(10_000, step, np.float64), keep="value")
        run.step()
        if step % 10 == 0:
            run.flush()


def test_a_full_disk_warns_once_and_keeps_what_was_written(small_disk: Path) -> None:
    with one_warning("rank0.tap has stopped"), tt.record(small_disk / "run") as run:
        record_much(run)
    assert run.counts["dropped_events"] > 0
    steps, values = tt.open(small_disk / "run").series("step")
    assert 0 < len(steps) < 200
    assert steps.tolist() == values.tolist() == list(range(len(steps)))
    assert tt.open(small_disk / "run").check()


TRAINING = """
import json, os, sys, warnings, numpy as np, tensortap as tt
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with tt.record("disk/run", keep="stats|value") as run:
        for step in range(300):
            run.log("step", step)
            run.tensor("x", np.full(10_000, step, np.float64))
            run.step()
            if step % 10 == 0:
                run.flush()
read = tt.open("disk/run")
steps, values = read.series("step")
last = int(read.series("x", "max")[0][-1])
print(json.dumps({
    "room": os.statvfs("disk").f_blocks * os.statvfs("disk").f_bsize,
    "warnings": [str(w.message) for w in caught],
    "steps": steps.tolist() == values.tolist() == list(range(len(steps))) and len(steps),
    "value": read.tensor("x", last, as_numpy=True).tolist() == [last] * 10_000,
    "whole": bool(read.check()),
}))
"""


def test_a_full_tmpfs_of_its_own_stops_recording_and_not_the_program(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    mount = "mount -t tmpfs -o size=1m tmpfs disk"
    alone = ["unshare", "-rm", "sh", "-c"]  # gone with the program; needs no rights
    if subprocess.run([*alone, mount], cwd=tmp_path, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here (unshare -rm is refused)")
    said = subprocess.run(
        [*alone, f'{mount} && exec "$0" -c "$1"', sys.executable, TRAINING],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    assert told["room"] == 1 << 20
    assert len(told["warnings"]) == 1
    assert os.strerror(errno.ENOSPC) in told["warnings"][0]
    assert 0 < told["steps"] < 300
    assert told["value"]
    assert told["whole"]


def test_a_model_is_trained_to_the_same_bits_on_a_full_disk(small_disk: Path) -> None:
    torch = pytest.importorskip("torch")

    def train(folder: Path | None) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 1))
        optimizer = torch.optim.AdamW(model.parameters())
        context = (
            contextlib.nullcontext()
            if folder is None
            else tt.record(folder, model=model, optimizer=optimizer, keep="stats|value")
        )
        with context as run:
            for _ in range(30):
                optimizer.zero_grad()
                model(torch.randn(8, 64)).square().mean().backward()
                optimizer.step()
                if run is not None:
                    run.flush()
        return [p.detach() for p in model.parameters()]

    with one_warning("has stopped"):
        recorded = train(small_disk / "run")
    assert all(map(torch.equal, recorded, train(None)))
    run = tt.open(small_disk / "run")
    assert run.check()
    assert 0 < len(run.stats("activation/(root)")) < 30


def test_a_folder_deleted_under_way_warns_once(tmp_path: Path) -> None:
    with one_warning("has stopped"), tt.record(tmp_path / "run") as run:
        run.log("x", 1)
        run.flush()
        shutil.rmtree(tmp_path / "run")
        for step in range(100):
            run.log("x", step)
            run.flush()
    assert run.counts["dropped_events"] > 0
    assert not (tmp_path / "run").exists()


def test_a_model_is_trained_on_though_its_file_was_removed(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4)
    losses = []
    with (
        one_warning("has stopped"),
        tt.record(tmp_path / "run", model=model, optimizer=optimizer) as run,
    ):
        for step in range(50):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
            if step == 10:
                run.flush()
                (tmp_path / "run" / "rank0.tap").unlink()
            if step == 20:
                run.flush()
    assert losses[-1] < losses[0]


def test_a_disk_that_fails_only_at_the_end_warns_at_close(tmp_path: Path) -> None:
    run = tt.record(tmp_path / "run")
    run.log("x", 1)
    shutil.rmtree(tmp_path / "run")
    with pytest.warns(RuntimeWarning, match="has stopped"):
        run.close()


def test_the_warning_names_the_file_and_the_reason(small_disk: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tt.record(small_disk / "run") as run:
            record_much(run)
            assert run.error is not None
    text = str(caught[0].message)
    assert str(small_disk / "run" / "rank0.tap") in text
    assert os.strerror(errno.ENOSPC) in text or os.strerror(errno.EFBIG) in text


def test_warnings_as_errors_reach_the_program(tmp_path: Path) -> None:
    code = (
        "import shutil, tensortap as tt\n"
        "run = tt.record('run')\n"
        "shutil.rmtree('run')\n"
        "for i in range(50): run.log('x', i); run.flush()\n"
    )
    said = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert said.returncode == 1
    assert "RuntimeWarning" in said.stderr
