"""Other threads run while a large summary reads memory that cannot change."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tensortap import _core

LARGE = bytes(64 << 20)
SMALL = bytes(200 << 10)


class Ticker:
    """A thread that counts whenever it gets the GIL."""

    def __init__(self) -> None:
        self.ticks = 0
        self.is_on = True
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while self.is_on:
            self.ticks += 1
            time.sleep(0.0002)

    def during(self, work: Callable[[], object]) -> int:
        """Count the ticks while *work* runs."""
        before = self.ticks
        work()
        return self.ticks - before

    def runs_during(self, work: Callable[[], object]) -> bool:
        """Tell whether it ever ticks while *work* runs: a busy machine may wake it late."""
        end = time.monotonic() + 20
        while self.during(work) == 0:
            if time.monotonic() > end:
                return False
        return True


@pytest.fixture
def ticker() -> Iterator[Ticker]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody takes the GIL: it has to be given
    it = Ticker()
    yield it
    it.is_on = False
    it.thread.join()
    sys.setswitchinterval(interval)


def test_immutable_memory_is_read_while_others_run(ticker: Ticker) -> None:
    array = np.frombuffer(LARGE, np.float32).reshape(4096, -1).T
    for call in (_core.stats, _core.digest, _core.histogram):
        assert ticker.runs_during(lambda: call(LARGE))  # noqa: B023
        assert ticker.runs_during(lambda: call(array))  # noqa: B023
    assert ticker.runs_during(lambda: _core.compare(LARGE, LARGE))


def test_memory_that_could_change_is_read_alone(ticker: Ticker) -> None:
    array = np.zeros(16 << 20, np.float32)
    locked = array.view()
    locked.flags.writeable = False  # its base still can be written to
    for work in (array, locked, bytearray(16 << 20)):
        assert ticker.during(lambda: _core.stats(work)) == 0  # noqa: B023
        assert ticker.during(lambda: _core.digest(work)) == 0  # noqa: B023
    other = bytearray(LARGE)
    assert ticker.during(lambda: _core.compare(LARGE, other)) == 0


def test_a_promise_lets_others_run(ticker: Ticker) -> None:
    array = np.zeros(16 << 20, np.float32)
    assert ticker.runs_during(lambda: _core.stats(array, release_gil=True))


def test_small_memory_is_not_worth_a_thread_switch(ticker: Ticker) -> None:
    assert sum(ticker.during(lambda: _core.digest(SMALL)) for _ in range(200)) == 0
