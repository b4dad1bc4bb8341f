"""Start the `tensortap` program on a terminal of its own, type, and read what it shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from commands import PROGRAM
from programs import PATIENCE


class Terminal:
    """A pseudo-terminal with the program in front of it."""

    def __init__(
        self, *arguments: object, folder: Path, rows: int = 30, columns: int = 100, **env: str
    ) -> None:
        """Start the program as a shell would: leader of a session that owns the terminal."""
        self.outside, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(inside)
        self.text = ""
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", str(PROGRAM), *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **env},
            stdin=inside,
            stdout=inside,
            stderr=inside,
        )
        self.inside = inside

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.outside, keys.encode())

    def wait_for(self, words: str) -> str:
        """Read until the words are there."""
        return self.wait_until(lambda text: words in text, f"no {words!r}")

    def wait_until(self, is_there: Callable[[str], bool], else_say: str) -> str:
        """Read until what was read so far is as wanted."""
        end = time.monotonic() + PATIENCE
        while not is_there(self.text):
            assert time.monotonic() < end, f"{else_say} in {self.text!r}"
            self._read(0.2)
        return self.text

    def _read(self, seconds: float) -> None:
        ready, _, _ = select.select([self.outside], [], [], seconds)
        if ready:
            self.text += os.read(self.outside, 1 << 16).decode("utf-8", "replace")

    def end(self) -> int:
        """Read to the end and give the exit code."""
        stop = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < stop, f"still running: {self.text!r}"
            self._read(0.05)
        while select.select([self.outside], [], [], 0)[0]:
            self._read(0)
        return self.process.returncode

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal's settings are those it had."""
        return termios.tcgetattr(self.inside) == self.before

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.inside)
        os.close(self.outside)
