"""64 tensors of 1 MB from two ranks (gloo): the tracer's gather against gather_object.

Both in the same two processes, in turns; time on the wall of rank 0, as it waits for the other.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import socket
import sys
import time
from datetime import timedelta
from statistics import median

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

COUNT, TURNS = 64, 7


def work(rank: int, port: int, file: str) -> None:
    from tensortap.trace.gather import Exchange
    from tensortap.trace.results import LocalVariableResult

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=timedelta(seconds=60))
    values = [torch.randn(512, 512) for _ in range(COUNT)]
    exchange = Exchange(rank, 2)

    def ours() -> None:
        result = LocalVariableResult(list(range(COUNT)), values)
        got = list(exchange.run([(0, "x", result)], False))
        if rank == 0:
            assert len(got[0][1][1][0][2].values) == COUNT

    def theirs() -> None:
        out = [None, None] if rank == 0 else None
        dist.gather_object(values, out)

    def seconds(call) -> float:
        dist.barrier()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    ratios = []
    for turn in range(TURNS + 1):
        a, b = seconds(ours), seconds(theirs)
        if turn > 0:
            ratios.append((b / a, a))
    if rank == 0:
        with open(file, "w") as out:
            json.dump([median(r for r, _ in ratios), median(a for _, a in ratios)], out)
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    import tempfile

    import harness

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "ratio")
        mp.spawn(work, (port, file), nprocs=2)
        with open(file) as read:
            ratio, taken = json.load(read)
    print(f"{COUNT} MB in {taken * 1e3:.0f} ms", file=sys.stderr)
    harness.row(
        "trace: gather of 64 x 1 MB from 2 ranks, times gather_object", ratio, 2.5, unit="x"
    )
