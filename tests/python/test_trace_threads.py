"""A tracer that comes and goes while other threads run the model raises nothing in them."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tensortap.trace import ModelTracer  # noqa: E402


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        parts = [x]
        h = self.fc(x)
        parts.append(h)
        h = h + 1
        return h


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


PATHS = ["forward", "blocks.*.forward", "blocks.*.forward.h", "blocks.*.forward.parts"]


class Workers:
    """Threads that call a model again and again, and what was raised in them."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.errors: list[BaseException] = []
        self.calls = 0
        self.is_over = False
        self.threads: list[threading.Thread] = []

    def start(self) -> None:
        self.threads.append(threading.Thread(target=self._run))
        self.threads[-1].start()

    def _run(self) -> None:
        x = torch.ones(2, 4)
        while not self.is_over:
            try:
                self.model(x)
            except BaseException as error:
                self.errors.append(error)
            self.calls += 1

    def end(self) -> None:
        self.is_over = True
        for thread in self.threads:
            thread.join()


class Asked(Net):
    """Has another thread call it when it is asked for its mode."""

    caller: Any = None

    @property
    def training(self) -> bool:
        if threading.current_thread() is threading.main_thread() and self.caller is not None:
            self.caller()
        return True

    @training.setter
    def training(self, _mode: bool) -> None:
        pass


def test_a_call_of_another_thread_before_the_tracer_has_begun_is_not_traced() -> None:
    model = Asked()
    begins, ended = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        begins.wait()
        try:
            model(torch.ones(2, 4))
        except BaseException as error:
            errors.append(error)
        ended.set()

    def call() -> None:
        begins.set()
        ended.wait()

    thread = threading.Thread(target=work)
    thread.start()
    model.caller = call
    with warnings.catch_warnings(), ModelTracer(model, PATHS) as tracer:
        warnings.simplefilter("ignore")
    thread.join()
    assert errors == []
    assert tracer.current_iteration == 0


class Slow:
    """Is copied when it is allowed to be."""

    begins, may_end = threading.Event(), threading.Event()

    def __deepcopy__(self, memo: object) -> Slow:
        self.begins.set()
        self.may_end.wait()
        return self


class Slowly(nn.Module):
    def forward(self, x: Any) -> Any:
        a = Slow()
        b = [x]
        return x, a, b


def test_a_tracer_is_left_while_another_thread_copies_a_value() -> None:
    model, results = Slowly(), []
    thread = threading.Thread(target=lambda: results.append(model(torch.ones(1))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ModelTracer(model, ["forward.a", "forward.b", "forward", "forward.x"]):
            thread.start()
            Slow.begins.wait()
        Slow.may_end.set()
        thread.join()
    assert len(results) == 1


@pytest.fixture
def workers() -> Iterator[Workers]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    made = Workers(Net())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a path that matched nothing in so short a time
        yield made
        made.end()
    sys.setswitchinterval(interval)


def test_a_tracer_is_entered_and_left_while_a_thread_is_in_the_model(workers: Workers) -> None:
    workers.start()
    for _ in range(40):
        with ModelTracer(workers.model, PATHS):
            pass
    workers.end()
    assert workers.errors == []
    assert workers.calls > 0


def test_a_tracer_is_left_while_threads_that_it_traces_are_in_the_model(workers: Workers) -> None:
    for i in range(20):
        with ModelTracer(workers.model, PATHS, gathering_interval=3) as tracer:
            workers.is_over = False
            workers.start()
            workers.start()
            began = workers.calls
            while workers.calls < began + 3:
                pass
        assert tracer.current_iteration > 0, i
        workers.end()
    assert workers.errors == []
