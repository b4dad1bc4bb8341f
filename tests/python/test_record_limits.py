"""The limits of a recorder: its queue, its budget, its bytes, and many threads at once."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tensortap as tt


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_unchanged_values_are_stored_once(folder: Path) -> None:
    x = np.arange(100_000.0)
    with tt.record(folder, keep="value") as run:
        for _ in range(20):
            run.tensor("x", x)
            run.step()
        run.flush()
        assert run.counts["values"] == 1
        assert run.counts["values_same"] == 19
    assert (folder / "rank0.tap").stat().st_size < 2 * x.nbytes
    np.testing.assert_array_equal(tt.open(folder).tensor("x", 17, as_numpy=True), x)


def test_max_bytes_drops_the_oldest_values_and_keeps_statistics(folder: Path) -> None:
    with tt.record(folder, keep="stats|value", max_bytes=4_000_000) as run:
        for step in range(20):
            run.tensor("x", np.full(125_000, step, np.float64))
            run.step()
    run_read = tt.open(folder)
    assert len(run_read.stats("x")) == 20
    assert run_read.tensor("x", 19, as_numpy=True)[0] == 19
    with pytest.raises(KeyError, match=r"step 0.*newer values"):
        run_read.tensor("x", 0, as_numpy=True)


def test_eight_threads_record_and_nothing_is_lost(folder: Path) -> None:
    with tt.record(folder) as run:

        def work(me: int) -> None:
            for i in range(5000):
                run.log(f"t{me}", i)
                if i % 100 == 0:
                    run.tensor(f"x{me}", np.full(10, i), keep="stats|value")

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert run.counts["dropped_events"] == 0
    run_read = tt.open(folder)
    for me in range(8):
        assert run_read.series(f"t{me}")[1].tolist() == list(range(5000))
        assert len(run_read.stats(f"x{me}")) == 50
    assert run_read.check()


def test_threads_that_wait_for_the_queue_let_others_run_and_close_ends_them(folder: Path) -> None:
    run = tt.record(folder)
    errors: list[BaseException] = []

    def work() -> None:
        x = np.random.default_rng(0).random(500_000)
        try:
            for i in range(10_000):
                x[0] = i
                run.tensor("x", x, keep="value")
        except ValueError as error:  # closed
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    run.close()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert [str(error)[:18] for error in errors] == ["this run is closed"] * 3
    assert tt.open(folder).check()


def test_watched_models_that_wait_for_the_queue_let_others_run(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Identity()
    run = tt.record(folder, model=model, keep="stats|value")
    is_over = threading.Event()
    calls = [0, 0, 0]

    def work(me: int) -> None:
        x = torch.randn(1_000_000)
        while not is_over.is_set():
            x[0] += 1
            model(x)
            calls[me] += 1

    threads = [threading.Thread(target=work, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.4)
    run.close()  # in the middle of their calls
    after = sum(calls)
    end = time.monotonic() + 20
    while sum(calls) == after and time.monotonic() < end:
        time.sleep(0.01)
    is_over.set()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert sum(calls) > after  # the program went on
    done = tt.open(folder)
    assert done.check()
    assert len(done.stats("activation/(root)")) > 0
    shutil.rmtree(folder)  # gigabytes


def test_overflow_drop_counts_what_it_drops(folder: Path) -> None:
    x = np.random.default_rng(0).random(1_000_000)
    with tt.record(folder, overflow="drop", keep="value") as run:
        for i in range(60):
            x[0] = i
            run.tensor("x", x)
    counts = run.counts
    recorded = len(tt.open(folder).series("x", "call")[0])
    assert recorded + counts["dropped_events"] == 60
    assert tt.open(folder).check()


def test_the_budget_thins_out_the_most_expensive_first_and_says_so(folder: Path) -> None:
    large, small = np.ones(1_000_000, np.float32), np.ones(8, np.float32)
    with tt.record(folder, budget=0.02) as run:
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            run.tensor("large", large)
            run.tensor("small", small)
            time.sleep(0.001)
            run.step()
        thinned = run.thinned()
        assert "thinned: large every" in repr(run)
    run_read = tt.open(folder)
    assert thinned.get("large", 0) >= 2
    assert thinned["large"] > thinned.get("small", 1)
    notes = [note.text for note in run_read.notes]
    assert any("budget: " in text and "large every" in text for text in notes)
    steps = run_read.series("large", "max")[0]
    assert np.diff(steps)[-1] > 1
    last = run_read.series("large", "time")[1][-1]
    assert last > 0
    assert run_read.cost is not None


def test_a_run_carries_its_own_cost(folder: Path) -> None:
    with tt.record(folder) as run:
        for _ in range(2000):
            run.tensor("x", np.ones(1000))
            run.step()
        cost = run.cost
    run_read = tt.open(folder)
    assert run_read.cost == pytest.approx(cost, rel=0.3)
    assert 0 < cost < 1
    assert run_read.names() == ["x"]
    assert run_read.names("tensortap/*") == ["tensortap/cost"]
    assert run_read.steps[-1] == 1999
