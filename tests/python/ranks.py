"""Run a function on several real ranks, which talk over gloo."""

from __future__ import annotations

import os
import tempfile
import traceback
from datetime import timedelta
from pathlib import Path

import pytest
from programs import PATIENCE, fork_server

torch = pytest.importorskip("torch")  # tests that use ranks need it
import torch.distributed as dist  # noqa: E402


def _work(rank, world, port, timeout, folder, function, arguments):
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=PATIENCE))
    store.set(f"up/{rank}", "")  # importing torch may take one rank longer than the timeout
    store.wait([f"up/{other}" for other in range(world)])
    limit = timedelta(seconds=timeout)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=limit)
    try:
        answer = ("ok", function(rank, world, *arguments))
    except Exception as error:
        answer = ("error", f"{type(error).__name__}: {error}", traceback.format_exc())
    torch.save(answer, Path(folder) / f"{rank}.pt")
    # torch waits for gloo's thread with the GIL, for which that thread may wait, too; and
    # processes with DDP end in SIGABRT now and then, after their work.
    os._exit(0)


def run_ranks(world, function, *arguments, timeout=60):
    """Run function(rank, world, ...) in as many processes; return what each said."""
    with tempfile.TemporaryDirectory() as folder:
        context = fork_server()
        # Held here: its port is free when it is chosen, and it outlives every rank.
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        common = (world, store.port, timeout, folder, function, arguments)
        processes = [context.Process(target=_work, args=(rank, *common)) for rank in range(world)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(2 * PATIENCE)
        for process in processes:
            if process.is_alive():
                process.kill()
        answers = []
        for rank in range(world):
            file = Path(folder) / f"{rank}.pt"
            answers.append(torch.load(file, weights_only=False) if file.exists() else ("died",))
    return answers


def said(answers):
    """Return what every rank returned; all must have."""
    for rank, answer in enumerate(answers):
        assert answer[0] == "ok", f"rank {rank}: {answer[-1]}"
    return [answer[1] for answer in answers]
