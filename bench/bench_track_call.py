"""What `auto_diff` costs: two 64 x 64 tensors in, one out, logged to a file.

Standard output goes to /dev/null; the log to a temporary folder.  Beside it what Tensor
Tracker does for such a call: it lists the stack with inspect, binds the arguments to the
signature, formats sum, mean, min and max of each tensor by torch, prints each line with a
flush, and opens the log file for it through the logging package.
"""

import functools
import inspect
import logging
import os
import sys
import tempfile
import threading
import time
from statistics import median

import harness
import torch

from tensortap.track import auto_diff

torch.set_num_threads(1)


OURS, THEIRS, TURNS = 200, 10, 60  # calls in a turn: about as long for both


def add(x, y):
    return x


class Layer(torch.nn.Module):
    """Calls from where programs call: the forward of a module inside a module."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x, y):
        return self.call(x, y)


class FileOfEachLine(logging.Handler):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.setFormatter(logging.Formatter("%(asctime)s - %(levelname)s - %(message)s"))

    def emit(self, record):
        name = f"process_{os.getpid()}_thread_{threading.get_ident()}.log"
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, name), "a", encoding="utf-8") as file:
            file.write(self.format(record) + "\n")


def as_tensor_tracker(func, folder):
    logger = logging.Logger("tracker", logging.DEBUG)
    logger.addHandler(FileOfEachLine(folder))

    def log(text):
        logger.info(text)
        print(text, flush=True)

    def log_tensor(name, t):
        numbers = f"sum={t.sum()} | mean={t.mean()} | min={t.min()} | max={t.max()}"
        log(f"├─ [Tensor] {name}@0 → shape={t.shape} | dtype={t.dtype} | {numbers}")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        stack = [f"{os.path.basename(one.filename)}:{one.lineno}" for one in inspect.stack()[2:]]
        log(f"┌── [{func.__qualname__}] called at {' <- '.join(stack[:3])}")
        for name, value in inspect.signature(func).bind(*args, **kwargs).arguments.items():
            log_tensor(name, value)
        start = time.time()
        result = func(*args, **kwargs)
        seconds = time.time() - start
        log_tensor("output", result)
        log(f"└─ time {seconds:.4f} s")
        return result

    return wrapper


def per_call(call, x, y, loops):
    start = time.thread_time_ns()
    for _ in range(loops):
        call(x, y)
    return (time.thread_time_ns() - start) / loops / 1e3


def main():
    x, y = torch.randn(64, 64), torch.randn(64, 64)
    logged = Layer(Layer(auto_diff(add)))
    out = sys.stdout
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nothing:
        os.environ["TENSORTAP_LOG_DIR"] = folder
        other = Layer(Layer(as_tensor_tracker(add, os.path.join(folder, "other"))))
        sys.stdout = nothing
        try:
            pairs = [
                (per_call(logged, x, y, OURS), per_call(other, x, y, THEIRS)) for _ in range(TURNS)
            ]
        finally:
            sys.stdout = out
    ours = median(mine for mine, _ in pairs)
    harness.row("track: auto_diff, a call", ours, 100, unit="us", at_most=True)
    ratio = median(theirs / mine for mine, theirs in pairs)
    harness.row("track: less than Tensor Tracker's way", ratio, 10, unit="x")


main()
