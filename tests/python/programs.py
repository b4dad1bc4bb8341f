"""Run small programs of a test's own, which cannot outlive it or fill the disk."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
