"""Threads that train, watch and stop at the same time do not disturb each other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tensortap as tt

torch = pytest.importorskip("torch")
from torch.optim import optimizer as optimizer_module  # noqa: E402


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """Switch threads far more often than Python does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def raised_by(*works: Callable[[], None]) -> list[BaseException]:
    """Run each in a thread of its own; return what they raised."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_runs_come_and_go_while_another_thread_steps(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    is_over = threading.Event()

    def step() -> None:
        while not is_over.is_set():
            optimizer.step()

    def record() -> None:
        try:
            for i in range(60):
                with tt.record(tmp_path / str(i), model=torch.nn.Linear(2, 2)):
                    pass
        finally:
            is_over.set()

    with tt.record(tmp_path / "outer", model=torch.nn.Linear(2, 2)):
        assert raised_by(step, record) == []


def test_three_threads_record_one_model(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)  # in-place changes would fail without us

    def work(name: str) -> Callable[[], None]:
        def record() -> None:
            for i in range(40):
                with tt.record(tmp_path / f"{name}{i}", model=model):
                    model(torch.ones(2, 8)).sum()
                    optimizer.step()

        return record

    assert raised_by(*(work(name) for name in "abc")) == []
    assert not model[0].weight._post_accumulate_grad_hooks


def test_a_run_ends_while_another_thread_is_in_backward(tmp_path: Path) -> None:
    model = torch.nn.Linear(8, 8)
    is_over = threading.Event()

    def train() -> None:
        while not is_over.is_set():
            model(torch.ones(2, 8)).sum().backward()

    def record() -> None:
        try:
            for i in range(60):
                with tt.record(tmp_path / str(i), model=model):
                    pass
        finally:
            is_over.set()

    assert raised_by(train, record) == []


def test_torch_has_one_pair_of_hooks_of_ours_however_many_runs_there_were(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    with tt.record(tmp_path / "first", model=model):
        count = len(optimizer_module._global_optimizer_pre_hooks)
    for i in range(3):
        with tt.record(tmp_path / str(i), model=model):
            assert len(optimizer_module._global_optimizer_pre_hooks) == count
            assert len(optimizer_module._global_optimizer_post_hooks) == count
