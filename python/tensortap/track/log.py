"""Where the lines go: standard output, and one file for each thread.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from tensortap.track.description import Description
from tensortap.track.rendering import (
    COLORS,
    NO_COLORS,
    Branch,
    branch_text,
    named_text,
)
from tensortap.track.wrapping import wrap

#: of a log file: ours are the only escapes that come through the tree
_ESCAPE = re.compile(r"\x1b[^m\n]*m?")
_FORMAT = "%(asctime)s - %(levelname)s - %(message)s"

logger = logging.getLogger("tensortap.track")
logger.setLevel(logging.INFO)
logger.propagate = False


class _ThreadFile(threading.local):
    """The open file of one thread; a forked child opens its own."""

    pid = 0
    fd = -1
    closer: _Closer | None = None


class _Closer:
    """Closes a thread's file when the thread is gone."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


class ThreadFileHandler(logging.Handler):
    """A logging handler that writes `process_{pid}_thread_{tid}.log` in a folder.

    Args:
        base_path: The folder; created with the first line.

    Example:
        >>> import logging
        >>> from tensortap.track import ThreadFileHandler
        >>> isinstance(ThreadFileHandler("logs"), logging.Handler)
        True
    """

    def __init__(self, base_path: str | os.PathLike[str]) -> None:
        """Write below *base_path*; nothing is made yet."""
        super().__init__(logging.INFO)
        self.base_path = Path(base_path).absolute()
        self._plain_formatter = logging.Formatter(_FORMAT)
        self.setFormatter(self._plain_formatter)
        self._file = _ThreadFile()
        self._has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, on one line at least."""
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        fd = self.file()
        try:
            if fd >= 0:
                os.write(fd, (text + "\n").encode("utf-8", "backslashreplace"))
        except OSError as error:
            self._give_up(error)

    def is_plain(self) -> bool:
        """Return whether format, level and filters are unchanged, so that no record is needed."""
        return (
            self.formatter is self._plain_formatter
            and self.level <= logging.INFO
            and not self.filters
        )

    def write_lines(self, text: str) -> None:
        """Write each line of *text* with the time before it, all in one write."""
        fd = self.file()
        if fd < 0:
            return
        head = f"{_stamp()} - INFO - "
        lines = head + text.replace("\n", f"\n{head}") + "\n"
        left = lines.encode("utf-8", "backslashreplace")
        try:
            while left:
                left = left[os.write(fd, left) :]
        except OSError as error:
            self._give_up(OSError(error.errno, error.strerror, str(self.base_path)))

    def file(self) -> int:
        """Return this thread's file, opened if need be; -1 if there is none."""
        if self._has_failed:
            return -1
        if self._file.pid != os.getpid():
            try:
                self._open()
            except OSError as error:
                self._give_up(error)
                return -1
        return self._file.fd

    def _give_up(self, error: OSError) -> None:
        self._has_failed = True
        remedy = "set TENSORTAP_LOG_DIR to a folder that can be written"
        text = f"tensortap.track writes no log: {error}; {remedy}"
        try:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:  # warnings are errors here; the program's own lines are not
            print(text, file=sys.stderr)

    def _open(self) -> None:
        self.base_path.mkdir(parents=True, exist_ok=True)
        name = f"process_{os.getpid()}_thread_{threading.get_ident()}.log"
        fd = os.open(
            self.base_path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666
        )
        self._file.fd = fd
        self._file.pid = os.getpid()
        self._file.closer = _Closer(fd)


_default: dict[str, ThreadFileHandler] = {}


def default_handler() -> ThreadFileHandler:
    """Return the handler that writes below the folder of the log."""
    from tensortap.track.inherited import log_folder  # imports this file

    folder = log_folder()
    handler = _default.get(folder)
    if handler is None:  # two threads may come here: the first one's stays, with its open file
        handler = _default.setdefault(folder, ThreadFileHandler(folder))
    return handler


_second = (0, "")  # the last one that a line was written in, and its text


def _stamp() -> str:
    """Return "2026-01-31 12:00:00,123", as the logging package writes it."""
    global _second
    now = time.time_ns()
    second, text = _second
    if now // 1_000_000_000 != second:
        second = now // 1_000_000_000
        text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        _second = (second, text)
    return f"{text},{now // 1_000_000 % 1000:03d}"


class _Stream(NamedTuple):
    """What is known of a stream; another one may be a terminal."""

    out: Any
    is_terminal: bool
    is_colored: bool


def _stream_of(out: Any) -> _Stream:
    try:
        is_terminal = bool(out.isatty())
    except Exception:
        return _Stream(out, False, False)
    dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("NO_COLOR"))
    return _Stream(out, is_terminal, is_terminal and not dumb)


class _Depth(threading.local):
    """How deep the tree of one thread is."""

    depth = 0


class Log:
    """Writes lines of the tree to standard output, the logger's handlers and the thread's file.

    Nothing that fails here reaches the program; only Ctrl-C does.
    """

    def __init__(self) -> None:
        """Write nothing yet."""
        self._stream = _Stream(None, False, False)
        self._thread = _Depth()

    @property
    def depth(self) -> int:
        """Return how deep this thread's tree is."""
        return self._thread.depth

    @depth.setter
    def depth(self, depth: int) -> None:
        self._thread.depth = max(depth, 0)

    def _find_stream(self) -> _Stream:
        stream = self._stream
        if sys.stdout is not stream.out:
            stream = self._stream = _stream_of(sys.stdout)
        return stream

    @property
    def is_colored(self) -> bool:
        """Return whether sys.stdout shows colours."""
        return self._find_stream().is_colored

    def colors(self) -> dict[str, str]:
        """Return the escape sequences to use in lines."""
        return COLORS if self.is_colored else NO_COLORS

    def lines(self, *rows: tuple[int, int, str]) -> None:
        """Write lines at once, each as (depth, branch, text)."""
        is_colored = self.is_colored
        try:
            text = "".join(branch_text(*row, is_colored=is_colored) for row in rows)
        except Exception:  # no memory, or no stack left
            return
        self.write(text)

    def value(self, indent: str, before: str, name: str, value: object, line: int) -> None:
        """Write what is known of a value, behind any indentation of the caller's."""
        is_colored = self.is_colored
        words = before + named_text(name, line, Description(value), value, self.colors())
        indent = indent.encode("utf-8", "backslashreplace").decode()  # the program's own
        self.write(indent + branch_text(0, Branch.ENTRY, words, is_colored=is_colored))

    def write(self, text: str) -> None:
        """Print *text*, which ends with a newline, and log it."""
        try:
            self._print(text)
            self._keep(text)
        except Exception:
            pass

    def _print(self, text: str) -> None:
        """Print on any stream; on a terminal wrapped to its width."""
        out, is_terminal, _ = self._find_stream()
        if out is None:
            return
        try:
            if is_terminal:
                text = wrap(text, shutil.get_terminal_size((100, 0)).columns)
            out.write(text)
        except UnicodeEncodeError:
            encoding = getattr(out, "encoding", None) or "ascii"
            out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except Exception:
            pass  # closed, or the reader is gone

    def _keep(self, text: str) -> None:
        """Log lines: to the logger's handlers, and to the thread's file if none of them has it."""
        text = text.removesuffix("\n")
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
        has_file = False
        for handler in list(logger.handlers):
            is_file = isinstance(handler, ThreadFileHandler)
            has_file = has_file or is_file
            if isinstance(handler, ThreadFileHandler) and handler.is_plain():
                handler.write_lines(text)
            else:
                for line in text.split("\n"):
                    handler.handle(
                        logger.makeRecord(logger.name, logging.INFO, "", 0, line, (), None)
                    )
        if not has_file:
            default_handler().write_lines(text)


log = Log()


# ---- for users


def log2file(text: object) -> None:
    """Print a text and write it to the log.

    Args:
        text: The text.

    Example:
        >>> from tensortap.track import log2file
        >>> log2file("start")
        start
    """
    line = f"{text!s}\n"
    log.write(line.encode("utf-8", "backslashreplace").decode())  # without lone surrogates
