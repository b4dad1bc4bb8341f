"""The limits of a recorder: its queue, its budget, its bytes, and many threads at once."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from programs import PATIENCE, wait_for

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
    with pytest.raises(KeyError, match=r"step 0.*evicted to stay within max_bytes"):
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
    run = tt.record(folder, max_bytes=100_000_000)
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
    wait_for(lambda: run.counts["values"] > 30, "the queue to fill")
    run.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert [str(error)[:18] for error in errors] == ["this run is closed"] * 3
    assert tt.open(folder).check()


def test_watched_models_that_wait_for_the_queue_let_others_run(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Identity()
    run = tt.record(folder, model=model, keep="stats|value", max_bytes=100_000_000)
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
    wait_for(lambda: sum(calls) > 30, "the queue to fill")
    run.close()  # in the middle of their calls
    after = sum(calls)
    wait_for(lambda: sum(calls) > after, "the program to go on")
    is_over.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    done = tt.open(folder)
    assert done.check()
    assert len(done.stats("activation/(root)")) > 0


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

        def go_on(steps: int) -> None:
            for _ in range(steps):
                run.tensor("large", large)
                run.tensor("small", small)
                large.sum()  # what the program does besides: as slow as this machine is
                run.step()

        def is_thinned() -> bool:
            go_on(100)
            thinned = run.thinned()
            # A pause of the machine can fall upon the small one and make it look expensive.
            return thinned.get("large", 0) > 2 * thinned.get("small", 1)

        wait_for(is_thinned, "the large one to become rarer than the small one")
        go_on(3 * run.thinned()["large"])
        assert "thinned: large every" in repr(run)
    run_read = tt.open(folder)
    notes = [note.text for note in run_read.notes]
    assert any("budget: " in text and "large every" in text for text in notes)
    steps = run_read.series("large", "max")[0]
    assert np.diff(steps)[-1] > 1
    last = run_read.series("large", "time")[1][-1]
    assert last > 0
    assert run_read.cost is not None


def test_a_run_carries_its_own_cost(folder: Path) -> None:
    with tt.record(folder) as run:
        begun = time.monotonic()
        while time.monotonic() < begun + 0.2 or run.current_step < 2000:
            run.tensor("x", np.ones(1000))
            run.step()
        asked = time.monotonic()
        cost = run.cost
        last = run.current_step - 1
    closed = time.monotonic()
    run_read = tt.open(folder)
    # The share of a time that ended between these two moments.
    assert 0.9 * cost * (asked - begun) / (closed - begun) < run_read.cost < 1.1 * cost
    assert 0 < cost < 1
    assert run_read.names() == ["x"]
    assert run_read.names("tensortap/*") == ["tensortap/cost"]
    assert run_read.steps[-1] == last


def test_hooks_and_calls_are_part_of_the_cost_where_nothing_is_recorded(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(8)))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with tt.record(folder, model=model, exclude="*") as run:
        for _ in range(300):
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert run.costs() == {}
        assert 0.01 < run.cost < 1


def test_a_cost_that_is_too_small_to_show_is_not_shown_as_zero(folder: Path) -> None:
    with tt.record(folder) as run:
        assert "cost less than 0.1%" in repr(run)


@pytest.mark.parametrize(("ranks", "least", "most"), [(1, 1 << 20, 2 << 20), (1024, 0, 256 << 10)])
def test_files_of_many_ranks_reserve_little_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, least: int, most: int
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", str(ranks))
    with tt.record(folder) as run:
        run.log("x", 1.0)
        run.flush()
        about = (folder / "rank0.tap").stat()
        reserved = about.st_blocks * 512
    if reserved < 1 << 12 and ranks == 1:
        pytest.skip("this file system reserves nothing")
    assert least <= reserved <= most
