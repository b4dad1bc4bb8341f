"""Forks, exits and signals: what was recorded can be read, and nothing hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from programs import ANY_FREE_PORT, PATIENCE, finish, said_first, started

import tensortap as tt


@pytest.mark.parametrize(
    ("ending", "code", "state"),
    [
        ("pass", 0, "finished"),
        ("sys.exit(3)", 3, "finished"),
        ("raise ValueError('no')", 1, "stopped"),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", -signal.SIGINT, "stopped"),
        ("time.sleep(0.8); os._exit(4)", 4, "crashed"),
        ("os.abort()", -signal.SIGABRT, "crashed"),
    ],
)
def test_every_way_to_end_leaves_a_run_that_can_be_read(
    tmp_path: Path, ending: str, code: int, state: str
) -> None:
    said = finish(
        f"""
        import os, signal, sys, time, tensortap as tt
        run = tt.record("run")
        for i in range(100):
            run.log("x", i)
        run.flush()
        {ending}
        """,
        tmp_path,
    )
    assert said.returncode == code, said.stderr
    run = tt.open(tmp_path / "run")
    assert run.state == state
    assert run.series("x")[1].tolist() == list(range(100))
    assert run.check()


def test_ctrl_c_lands_in_the_program_while_the_writer_is_busy(tmp_path: Path) -> None:
    code = """
        import numpy as np, tensortap as tt
        x = np.random.default_rng(0).random(500_000)
        with tt.record("run", keep="value", max_bytes=50_000_000) as run:
            print("begun", flush=True)
            while True:
                x[0] += 1
                run.tensor("x", x)
                run.step()
        """
    with started(code, tmp_path) as process:
        said_first(process)
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in err
    run = tt.open(tmp_path / "run")
    assert run.state == "stopped"
    assert run.notes[-1].text.startswith("stopped by KeyboardInterrupt")
    assert run.check()


def test_exit_handlers_of_the_program_can_still_record(tmp_path: Path) -> None:
    said = finish(
        """
        import atexit, tensortap as tt
        atexit.register(lambda: print(run.closed))  # handlers run backwards: ours is before it
        run = tt.record("run")
        atexit.register(lambda: run.log("last", 1))
        """,
        tmp_path,
    )
    assert (said.returncode, said.stdout.strip()) == (0, "True"), said.stderr
    read = tt.open(tmp_path / "run")
    assert read.state == "finished"
    assert read.series("last")[1].tolist() == [1]


def test_200_forks_under_a_saturated_writer_never_hang(tmp_path: Path) -> None:
    said = finish(
        """
        import os, signal, threading, numpy as np, tensortap as tt
        run = tt.record("run", keep="stats|value", max_bytes=100_000_000)
        stop = False
        def busy():
            x = np.random.default_rng(0).random(100_000)
            while not stop:
                x[0] += 1
                run.tensor("x", x)
                for i in range(100): run.log("y", i)
        thread = threading.Thread(target=busy); thread.start()
        bad = 0
        for i in range(200):
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)
                run.log("child", i); run.tensor("c", np.ones(10)); run.step(); run.flush()
                with tt.record(f"child{i}") as own: own.log("mine", i)
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
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == "0"
    run = tt.open(tmp_path / "run")
    assert run.check()
    assert "child" not in run
    for i in range(200):
        assert tt.open(tmp_path / f"child{i}").series("mine")[1].tolist() == [i]


@pytest.mark.parametrize(("method", "workers"), [("fork", 4), ("spawn", 2)])  # spawned, slowly
def test_dataloader_workers_record_nothing_and_disturb_nothing(
    tmp_path: Path, method: str, workers: int
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        textwrap.dedent(
            f"""
            import torch, tensortap as tt

            class Data(torch.utils.data.Dataset):
                def __init__(self, model): self.model = model
                def __len__(self): return 32
                def __getitem__(self, i):
                    with torch.no_grad(): self.model(torch.ones(1, 4))
                    return torch.full((4,), float(i))

            if __name__ == "__main__":
                torch.set_num_threads(1)
                model = torch.nn.Linear(4, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
                with tt.record("run", model=model, optimizer=optimizer) as run:
                    loader = torch.utils.data.DataLoader(
                        Data(model), 4, num_workers={workers},
                        multiprocessing_context={method!r})
                    for batch in loader:
                        loss = model(batch).square().mean()
                        optimizer.zero_grad(); loss.backward(); optimizer.step()
                        run.log("loss", loss)
            """
        )
    )
    said = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert said.returncode == 0, said.stderr
    run = tt.open(tmp_path / "run")
    assert run.steps.tolist() == list(range(8))
    assert [s.shape for s in run.stats("activation/(root)")] == [(4, 1)] * 8
    assert len(run.series("loss")[0]) == 8
    assert run.check()
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["rank0.tap"]


def test_a_run_of_a_multiprocessing_child_is_closed_at_its_end(tmp_path: Path) -> None:
    said = finish(
        """
        import multiprocessing, tensortap as tt
        def work():
            run = tt.record("child")
            run.log("x", 1)
        context = multiprocessing.get_context("fork")
        with tt.record("parent") as run:
            run.log("x", 2)
            child = context.Process(target=work)
            child.start(); child.join()
            print(child.exitcode)
        """,
        tmp_path,
    )
    assert (said.returncode, said.stdout.strip()) == (0, "0"), said.stderr
    child = tt.open(tmp_path / "child")
    assert child.state == "finished"
    assert child.series("x")[1].tolist() == [1]
    assert tt.open(tmp_path / "parent").series("x")[1].tolist() == [2]


def test_two_processes_cannot_record_into_one_file(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        run.log("x", 1)
        said = finish("import tensortap as tt; tt.record('run', resume=True)", tmp_path)
        assert "another process is recording into it" in said.stderr


def test_a_forked_child_is_not_watched(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    with tt.record(tmp_path / "run", model=model):
        pid = os.fork()
        if pid == 0:
            os._exit(int("_compiled_call_impl" in model.__dict__))
        assert os.waitpid(pid, 0)[1] == 0
        model(torch.ones(1, 2))
    assert len(tt.open(tmp_path / "run").stats("activation/(root)")) == 1


def test_two_gloo_ranks_under_torchrun_are_joined(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        textwrap.dedent(
            """
            import torch, torch.distributed as dist, tensortap as tt
            from torch.nn.parallel import DistributedDataParallel

            torch.set_num_threads(1)
            dist.init_process_group("gloo")
            torch.manual_seed(0)
            model = DistributedDataParallel(torch.nn.Linear(4, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            with tt.record(model=model, optimizer=optimizer) as run:
                for step in range(5):
                    x = torch.full((2, 4), float(dist.get_rank() + 1))
                    loss = model(x).square().mean()
                    optimizer.zero_grad(); loss.backward(); optimizer.step()
                    run.log("loss", loss)
            dist.barrier()
            dist.destroy_process_group()
            """
        )
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    command += [*ANY_FREE_PORT, "train.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert (tmp_path / "runs").is_dir(), said.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    run = tt.open(folder)
    assert run.ranks == [0, 1]
    assert run.info["world_size"] == 2
    assert run.state == "finished"
    assert run.steps.tolist() == [0, 1, 2, 3, 4]
    weights = [run.series("parameter/weight", "l2", rank=rank)[1] for rank in (0, 1)]
    np.testing.assert_array_equal(*weights)
    gradients = [run.series("gradient/weight", "l2", rank=rank)[1] for rank in (0, 1)]
    np.testing.assert_array_equal(*gradients)  # reduced
    losses = [run.series("loss", rank=rank)[1] for rank in (0, 1)]
    assert (losses[0] != losses[1]).all()
    assert run.check()
