"""Tensors larger than the queue: other threads run while one waits, and may change anything."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import PATIENCE

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


def record_one(
    folder: Path, make: Callable[[], Any], meanwhile: Callable[[Any], object]
) -> tuple[dict[str, int], tt.Run, Any]:
    """Record a tensor through a small queue; meanwhile another thread does something to it.

    The GIL is given hundreds of times, and who gets it is for the system to decide: one that
    never wakes the other thread in time is asked again.  One that is never given fails.
    """
    for turn in range(20):
        x = make()
        was_done, counts = record_once(folder / f"run{turn}", x, meanwhile)
        if was_done:
            return counts, tt.open(folder / f"run{turn}"), x
    raise AssertionError("no other thread ran while this one waited")


def record_once(
    path: Path, x: Any, meanwhile: Callable[[Any], object]
) -> tuple[bool, dict[str, int]]:
    recorder = _core.Recorder(str(path), queue_bytes=SMALL_QUEUE)
    begins, done = threading.Event(), threading.Event()

    def other() -> None:
        begins.wait()
        meanwhile(x)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    begins.set()  # it runs when this thread gives up the GIL: first while it waits for the queue
    recorder.tensor("x", x, keep="stats|value")
    was_done = done.is_set()
    thread.join()
    counts = recorder.counts
    recorder.close()
    return was_done, counts


def test_another_thread_runs_while_a_large_tensor_waits(tmp_path: Path, alone: None) -> None:
    counts, run, x = record_one(
        tmp_path, lambda: np.arange(LARGE, dtype=np.float32), lambda _: None
    )
    assert (counts["values"], counts["dropped_events"]) == (1, 0)
    np.testing.assert_array_equal(run.tensor("x", 0, as_numpy=True), x)


def set_to_one(x: Any) -> None:
    x[:] = 1.0


def test_a_tensor_that_is_changed_meanwhile_is_never_stored_torn(
    tmp_path: Path, alone: None
) -> None:
    counts, run, _ = record_one(tmp_path, lambda: np.zeros(LARGE, np.float32), set_to_one)
    assert (counts["values"], counts["dropped_events"]) == (0, 1)
    assert run.check()
    assert run.stats("x")[0].max == 0.0  # as it was when it was given
    with pytest.raises(KeyError):
        run.tensor("x", 0, as_numpy=True)


def test_memory_that_is_freed_meanwhile_is_not_read(tmp_path: Path, alone: None) -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("__dlpack__ of this torch gives up the GIL: it is freed before it is read")
    counts, run, _ = record_one(
        tmp_path, lambda: torch.ones(LARGE), lambda x: x.untyped_storage().resize_(0)
    )
    assert (counts["values"], counts["dropped_events"]) == (0, 1)
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
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    recorder.close()
    run = tt.open(tmp_path / "run")
    assert run.check()
    for me in range(3):
        np.testing.assert_array_equal(run.tensor(f"x{me}", 0, as_numpy=True, call=3), arrays[me])


def test_a_watched_module_waits_without_the_gil_too(tmp_path: Path, alone: None) -> None:
    torch = pytest.importorskip("torch")
    from tensortap.runs.watch import watch

    model, x = torch.nn.Identity(), torch.arange(float(LARGE))
    recorder = _core.Recorder(str(tmp_path / "run"), queue_bytes=SMALL_QUEUE, products=2 | 32)
    watch(model, run=recorder)
    begins, done = threading.Event(), threading.Event()

    def other() -> None:
        begins.wait()
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    begins.set()
    for turn in range(20):
        x[0] = turn
        model(x)
        if done.is_set():
            break
    assert done.is_set()
    thread.join()
    recorder.close()
    assert torch.equal(tt.open(tmp_path / "run").tensor("activation/(root)", 0, call=turn), x)


def test_a_run_closed_by_another_thread_ends_the_wait(tmp_path: Path, alone: None) -> None:
    recorder = _core.Recorder(str(tmp_path / "run"), queue_bytes=SMALL_QUEUE)
    closer = threading.Thread(target=recorder.close)
    x = np.arange(LARGE, dtype=np.float32)
    closer.start()
    if not recorder.closed:  # it was not started at once
        recorder.tensor("x", x, keep="value")
    closer.join(PATIENCE)
    assert not closer.is_alive()
    assert tt.open(tmp_path / "run").check()
