"""follow_fork=True: a forked child goes on with the run, in a file of its own."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from programs import finish

import tensortap as tt


def test_a_child_records_into_a_file_of_its_own_and_the_reader_joins_them(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", follow_fork=True) as run:
        run.log("x", 1)
        run.step()
        pid = os.fork()
        if pid == 0:
            try:
                run.log("x", 2)
                run.log("child", 3)
                run.note("from the child")
                run.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        run.log("x", 4)
    files = {file.name for file in (tmp_path / "run").iterdir()}
    assert files == {"rank0.tap", f"rank0.{pid}.tap"}
    read = tt.open(tmp_path / "run")
    assert read.check()
    assert read.state == "finished"
    assert sorted(read.series("x")[1]) == [1, 2, 4]
    assert read.series("x")[0].tolist() == [0, 1, 1]
    assert read.series("child")[1].tolist() == [3]
    assert [note.text for note in read.notes] == ["from the child"]
    own = tt.open(tmp_path / "run" / f"rank0.{pid}.tap")
    assert own.info["pid"] == pid
    assert own.info["parent"] == str(os.getpid())


def test_a_child_that_records_nothing_makes_no_file(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", follow_fork=True) as run:
        pid = os.fork()
        if pid == 0:
            run.step()
            run.flush()
            run.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["rank0.tap"]


def test_a_watched_model_goes_on_in_the_child_under_the_same_names(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    with tt.record(tmp_path / "run", model=model, follow_fork=True, every=1) as run:
        model(torch.ones(1, 2))
        run.step()
        pid = os.fork()
        if pid == 0:
            model(torch.full((1, 2), 5.0))
            run.log("new", 1)
            run.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    child = tt.open(tmp_path / "run" / f"rank0.{pid}.tap")
    names = ["activation/0", "activation/1", "activation/(root)", "new"]
    assert [name for name in names if len(child.series(name)[0]) == 1] == names
    assert child.stats("activation/0")[0].shape == (1, 2)
    assert child.series("activation/0")[0].tolist() == [1]


@pytest.mark.parametrize("method", ["fork", "plain"])
def test_the_file_of_a_child_is_closed_at_its_end(tmp_path: Path, method: str) -> None:
    ways = {
        "fork": """
            context = multiprocessing.get_context("fork")
            child = context.Process(target=work)
            child.start(); child.join()
            assert child.exitcode == 0
        """,
        "plain": """
            pid = os.fork()
            if pid == 0:
                work()
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        """,
    }
    said = finish(
        """
        import multiprocessing, os, sys, tensortap as tt
        run = tt.record("run", follow_fork=True)
        def work():
            os.chdir("/")
            for i in range(100): run.log("x", i)
        """
        + textwrap.indent(textwrap.dedent(ways[method]), " " * 8),
        tmp_path,
    )
    assert said.returncode == 0, said.stderr
    read = tt.open(tmp_path / "run")
    assert len(read.files) == 2
    assert read.state == "finished"
    assert read.series("x")[1].tolist() == list(range(100))


def test_a_grandchild_has_a_file_too(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", follow_fork=True) as run:
        pid = os.fork()
        if pid == 0:
            run.log("x", 1)
            below = os.fork()
            if below == 0:
                run.log("x", 2)
                run.close()
                os._exit(0)
            bad = os.waitpid(below, 0)[1]
            run.close()
            os._exit(bad != 0)
        assert os.waitpid(pid, 0)[1] == 0
    read = tt.open(tmp_path / "run")
    assert sorted(read.series("x")[1]) == [1, 2]
    assert len(read.files) == 3
    assert read.check()


def test_dataloader_workers_can_be_followed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    said = finish(
        """
        import torch, tensortap as tt
        torch.set_num_threads(1)
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 32
            def __getitem__(self, i):
                run.log("loaded", i)
                return i
        with tt.record("run", follow_fork=True) as run:
            for batch in torch.utils.data.DataLoader(Data(), 4, num_workers=4):
                run.log("batch", float(batch.sum()))
                run.step()
        """,
        tmp_path,
    )
    assert said.returncode == 0, said.stderr
    read = tt.open(tmp_path / "run")
    assert len(read.files) == 5
    assert sorted(read.series("loaded")[1]) == list(range(32))
    assert len(read.series("batch")[0]) == 8
    assert read.check()


def test_200_forks_under_a_saturated_writer_are_followed(tmp_path: Path) -> None:
    said = finish(
        """
        import os, signal, threading, tensortap as tt
        run = tt.record("run", follow_fork=True)
        stop = False
        def busy():
            while not stop:
                for i in range(1000): run.log("y", i)
        thread = threading.Thread(target=busy); thread.start()
        bad = 0
        for i in range(200):
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)
                run.log("child", i)
                run.close()
                os._exit(0)
            bad += os.waitpid(pid, 0)[1] != 0
        stop = True
        thread.join()
        run.close()
        print(bad)
        """,
        tmp_path,
    )
    assert (said.returncode, said.stdout.strip()) == (0, "0"), said.stderr
    read = tt.open(tmp_path / "run")
    assert sorted(read.series("child")[1]) == list(range(200))
    assert read.check()


def test_no_child_hangs_that_is_forked_while_another_thread_trains(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    said = finish(
        """
        import os, signal, threading, time, torch, tensortap as tt
        torch.set_num_threads(1)
        model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(20)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        hung, ended, left = [], [], threading.Semaphore(400)
        def fork():
            while left.acquire(blocking=False):
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                end = time.monotonic() + 20
                while os.waitpid(pid, os.WNOHANG)[0] == 0:
                    if time.monotonic() > end:
                        hung.append(pid)
                        os.kill(pid, signal.SIGKILL)
                        os.waitpid(pid, 0)
                        break
                    time.sleep(0.001)
                ended.append(pid)
        with tt.record("run", model=model, every=1):
            threads = [threading.Thread(target=fork) for _ in range(4)]
            for thread in threads: thread.start()
            while any(thread.is_alive() for thread in threads) and not hung:
                model(torch.ones(2, 4)).sum().backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            while left.acquire(blocking=False): pass  # one that hangs says enough
            for thread in threads: thread.join()
        print(len(hung), len(ended))
        """,
        tmp_path,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == ["0", "400"]
