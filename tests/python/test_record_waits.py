"""Tensors larger than the queue: other threads run while one waits, and may change anything."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensortap as tt
from tensortap import _core

SMALL_QUEUE = 1 << 16
LARGE = 8 << 20  # float32s


@pytest.fixture
def alone() -> Iterator[None]:
    """Let no thread take the GIL: it has to be given."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)


def record_one(path: Path, x: Any, meanwhile: Callable[[], object]) -> dict[str, int]:
    """Record a tensor through a small queue; meanwhile another thread does something."""
    recorder = _core.Recorder(str(path), queue_bytes=SMALL_QUEUE)
    begins, done = threading.Event(), threading.Event()

    def other() -> None:
        begins.wait()
        meanwhile()
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    begins.set()  # it runs when this thread gives up the GIL: first while it waits for the queue
    recorder.tensor("x", x, keep="stats|value")
    was_done = done.is_set()
    thread.join()
    counts = recorder.counts
    recorder.close()
    assert was_done, "no other thread ran while this one waited"
    return counts


def test_another_thread_runs_while_a_large_tensor_waits(tmp_path: Path, alone: None) -> None:
    x = np.arange(LARGE, dtype=np.float32)
    ran: list[int] = []
    counts = record_one(tmp_path / "run", x, lambda: ran.append(1))
    assert ran == [1]
    assert (counts["values"], counts["dropped_events"]) == (1, 0)
    np.testing.assert_array_equal(tt.open(tmp_path / "run").tensor("x", 0, as_numpy=True), x)


def test_a_tensor_that_is_changed_meanwhile_is_never_stored_torn(
    tmp_path: Path, alone: None
) -> None:
    x = np.zeros(LARGE, np.float32)
    counts = record_one(tmp_path / "run", x, lambda: x.__setitem__(slice(None), 1.0))
    assert (counts["values"], counts["dropped_events"]) == (0, 1)
    run = tt.open(tmp_path / "run")
    assert run.check()
    assert run.stats("x")[0].max == 0.0  # as it was when it was given
    with pytest.raises(KeyError):
        run.tensor("x", 0, as_numpy=True)


def test_memory_that_is_freed_meanwhile_is_not_read(tmp_path: Path, alone: None) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(LARGE)
    counts = record_one(tmp_path / "run", x, lambda: x.untyped_storage().resize_(0))
    assert (counts["values"], counts["dropped_events"]) == (0, 1)
    run = tt.open(tmp_path / "run")
    assert run.check()
    assert run.stats("x")[0].sum == LARGE


def test_two_threads_with_large_tensors_do_not_wait_for_each_other(tmp_path: Path) -> None:
    recorder = _core.Recorder(str(tmp_path / "run"), queue_bytes=SMALL_QUEUE)
    arrays = [np.full(LARGE // 8, me, np.float64) for me in range(3)]

    def work(me: int) -> None:
        for step in range(4):
            arrays[me][0] = step
            recorder.tensor(f"x{me}", arrays[me], keep="value")

    threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    recorder.close()
    run = tt.open(tmp_path / "run")
    assert run.check()
    for me in range(3):
        np.testing.assert_array_equal(run.tensor(f"x{me}", 0, as_numpy=True, call=3), arrays[me])


def test_a_watched_module_waits_without_the_gil_too(tmp_path: Path, alone: None) -> None:
    torch = pytest.importorskip("torch")
    from tensortap.watch import watch

    model, x = torch.nn.Identity(), torch.arange(float(LARGE))
    recorder = _core.Recorder(str(tmp_path / "run"), queue_bytes=SMALL_QUEUE, products=2 | 32)
    watch(model, run=recorder)
    done = threading.Event()
    thread = threading.Thread(target=done.set)
    thread.start()
    model(x)
    assert done.is_set()
    thread.join()
    recorder.close()
    assert torch.equal(tt.open(tmp_path / "run").tensor("activation/(root)", 0), x)


def test_a_run_closed_by_another_thread_ends_the_wait(tmp_path: Path, alone: None) -> None:
    recorder = _core.Recorder(str(tmp_path / "run"), queue_bytes=SMALL_QUEUE)
    closer = threading.Thread(target=recorder.close)
    x = np.arange(LARGE, dtype=np.float32)
    closer.start()
    if not recorder.closed:  # it was not started at once
        recorder.tensor("x", x, keep="value")
    closer.join(60)
    assert not closer.is_alive()
    assert tt.open(tmp_path / "run").check()
