"""Run small programs of a test's own, which cannot outlive it or fill the disk."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from pathlib import Path

# A suite that runs in the background ignores Ctrl-C, and so would its children.
# No file above 4 GB: a loop that nobody ends must not fill the machine's disk.
FIRST = """
import resource, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, resource.RLIM_INFINITY))
"""

# How long anything may take, on a machine that stands still for seconds now and then.
PATIENCE = 120.0

# Of torchrun: it listens on a port before it tells the ranks; the host's name need not be known.
ANY_FREE_PORT = ("--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1")


def wait_for(is_so: Callable[[], object], what: str = "it") -> None:
    """Wait until something is so; it is an error only after a time that is never needed."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


@contextmanager
def started(code: str, cwd: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run *code* while the block lasts; whatever happens in it, the program is gone after."""
    with subprocess.Popen(
        [sys.executable, "-c", FIRST + textwrap.dedent(code), *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said_first(process: subprocess.Popen[str]) -> str:
    """Wait for the first line that the program prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.communicate()[1])
    return line.strip()


def finish(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run *code* to its end."""
    with started(code, cwd) as process:
        out, err = process.communicate(timeout=2 * PATIENCE)
    return subprocess.CompletedProcess([], process.returncode, out, err)


def fork_server() -> ForkServerContext:
    """Return the context of a server that imports torch once for all tests, and forks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "torch.distributed", "pytest", "h5py"])
    return context


def _be_program(
    code: str, cwd: Path, arguments: tuple[str, ...], environment: dict[str, str], folder: str
) -> None:
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(FIRST, main.__dict__)  # apart: lines of the code keep their numbers
    exec(compile(code, "<string>", "exec"), main.__dict__)


def forked(
    code: str, cwd: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run *code* to its end in a fork of a process that has imported torch and Dynamo: 2 s sooner.

    For facts that depend neither on the order of imports nor on how a program starts and exits.
    The server has not imported tensortap.
    """
    given = (textwrap.dedent(code), cwd, arguments, {**os.environ, **environment})
    with tempfile.TemporaryDirectory() as folder:
        process = fork_server().Process(target=_be_program, args=(*given, folder))
        process.start()
        process.join(2 * PATIENCE)
        process.kill()  # if it hangs; else nothing happens
        process.join()
        out, err = (Path(folder, name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess([], process.exitcode or 0, out, err)
