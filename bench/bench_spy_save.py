"""Saving tensors: spy_save without a context, inside of one, and the files themselves."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from harness import ROOT, peak_extra, row

from tensortap.spy import DebugContext, TensorSaver, spy_save

PAIRS = 9
MB = 1 << 20


def empty_builtin() -> Callable[..., None]:
    """Build and import a C function that does nothing."""
    folder = ROOT / ".build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"empty_builtin{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = sysconfig.get_paths()["include"]
    source = str(ROOT / "bench" / "empty_builtin.c")
    subprocess.run(
        ["cc", "-O3", "-shared", "-fPIC", f"-I{include}", source, "-o", str(library)], check=True
    )
    spec = importlib.util.spec_from_file_location("empty_builtin", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., None] = module.empty
    return found


def outside() -> None:
    """Without a context: the call itself, in a loop of its own for each function."""
    model, q, loops = torch.nn.Linear(2, 2), torch.ones(3), 200_000

    def of(function: Callable[..., Any]) -> float:
        code = f"def many():\n for _ in range({loops}):\n  f('q', q, self)"
        names: dict[str, Any] = {"f": function, "q": q, "self": model}
        exec(code, names)
        start = time.thread_time_ns()
        names["many"]()
        return (time.thread_time_ns() - start) / loops

    empty = empty_builtin()
    ours, theirs = zip(*((of(spy_save), of(empty)) for _ in range(15)), strict=True)
    row("`spy_save` outside of a context", min(ours), 45, unit="ns", at_most=True)
    row(
        "the same, against an empty C builtin", min(ours) / min(theirs), 1.3, unit="x", at_most=True
    )


def plain_write(path: str, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    view, at = memoryview(content), 0
    while at < len(content):
        at += os.write(file, view[at:])
    os.close(file)


def pairs(folder: Path, *calls: Callable[[], object]) -> list[float]:
    """Give the ratio of the first call's time to that of each other, as medians of pairs."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(PAIRS):
        for call, mine in zip(calls, taken, strict=True):
            for file in folder.iterdir():
                file.unlink()
            start = time.perf_counter()
            call()
            mine.append(time.perf_counter() - start)
    return [median(a / b for a, b in zip(taken[0], other, strict=True)) for other in taken[1:]]


def inside(folder: Path, where: str, is_judged: bool) -> None:
    saver = TensorSaver(folder)
    for size in (1, 16, 256):
        t = torch.randn(size * MB // 4)
        saver.save("first", t, call_idx=0)
        content = (folder / "first.call0.pt").read_bytes()

        def in_context(t: torch.Tensor = t) -> None:
            with DebugContext(saver):
                spy_save("t", t)

        def alone(t: torch.Tensor = t) -> None:
            saver.save("t", t)

        def by_torch(t: torch.Tensor = t) -> None:
            torch.save(t, folder / "torch.pt")

        def plainly(content: bytes = content) -> None:
            plain_write(str(folder / "plain"), content)

        for what, call in (("in a context", in_context), ("`save`", alone)):
            call()
            against_torch, against_plain = pairs(folder, call, by_torch, plainly)
            bar = 0.7 if size <= 16 else None
            row(
                f"{size} MB {what} on {where} / torch.save",
                against_torch,
                bar,
                unit="x",
                at_most=True,
            )
            bar = 1.25 if is_judged else None
            row(
                f"{size} MB {what} on {where} / plain write",
                against_plain,
                bar,
                unit="x",
                at_most=True,
            )


def held_up(folder: Path) -> None:
    """How long spy_save keeps the forward pass, as time of its thread."""
    t, to = torch.randn(MB // 4), torch.empty(MB // 4)
    memcpy = ctypes.CDLL(None).memcpy
    memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    ours, theirs = [], []
    saver = TensorSaver(folder)
    for _ in range(60):
        with DebugContext(saver):
            start = time.thread_time_ns()
            spy_save("t", t)
            ours.append(time.thread_time_ns() - start)
        start = time.thread_time_ns()
        memcpy(to.data_ptr(), t.data_ptr(), MB)
        theirs.append(time.thread_time_ns() - start)
    row("held up by 1 MB / memcpy", median(ours) / median(theirs), 1.3, unit="x", at_most=True)


def many_small(folder: Path) -> None:
    t, count = torch.randn(64), 2000
    best = float("inf")
    for turn in range(5):
        saver = TensorSaver(folder / str(turn))
        start = time.process_time()  # both threads; a busy machine would make the wall tell lies
        with DebugContext(saver):
            for _ in range(count):
                spy_save("t", t)
        best = min(best, (time.process_time() - start) / count)
    row("a tensor of 256 bytes to disk", best * 1e6, 40, unit="us", at_most=True)


def memory(folder: Path) -> None:
    t = torch.randn(4 * MB // 4)

    def many() -> None:
        saver = TensorSaver(folder / "memory")
        with DebugContext(saver):
            for _ in range(64):
                spy_save("t", t, norm_only=False)
                for file in (folder / "memory").glob("*call*"):
                    file.unlink(missing_ok=True)

    row("memory while 256 MB are saved", peak_extra(many) / MB, 72, unit="MB", at_most=True)


def main() -> None:
    torch.set_num_threads(1)
    outside()
    fast = Path(tempfile.mkdtemp(dir="/dev/shm"))
    slow = Path(tempfile.mkdtemp())
    try:
        held_up(fast)
        many_small(fast / "small")
        memory(fast)
        shutil.rmtree(fast)
        fast.mkdir()
        inside(fast, "tmpfs", True)
        inside(slow, "disk", False)
    finally:
        shutil.rmtree(fast)
        shutil.rmtree(slow)


if __name__ == "__main__":
    main()
