"""Where the lines go: standard output, and one file for each thread.

A line costs one write to a file opened for appending, so that lines are never
torn; the logging package is only asked where the user brought other handlers.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import warnings
from pathlib import Path

from tensortap import _core

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_FORMAT = "%(asctime)s - %(levelname)s - %(message)s"

logger = logging.getLogger("tensortap.track")
logger.setLevel(logging.INFO)
logger.propagate = False


class _Indent(threading.local):
    """Each thread's depth in its own tree."""

    level = 0


_indent = _Indent()


class IndentManager:
    """The depth of this thread's tree; every thread has its own."""

    @staticmethod
    def get() -> int:
        """Return how many calls are open."""
        return _indent.level

    @staticmethod
    def increase() -> int:
        """Go one call deeper."""
        _indent.level += 1
        return _indent.level

    @staticmethod
    def decrease() -> int:
        """Come back from a call."""
        _indent.level = max(0, _indent.level - 1)
        return _indent.level

    @staticmethod
    def text() -> str:
        """Return the guides that stand before a line."""
        return "│   " * _indent.level


def log_folder() -> Path:
    """Return $TENSORTAP_LOG_DIR, or ttracker_logs here; with $LTAG as a folder in it."""
    folder = Path(os.environ.get("TENSORTAP_LOG_DIR") or "ttracker_logs")
    tag = os.environ.get("LTAG")
    return folder / tag if tag else folder


class _ThreadFile(threading.local):
    """The open file of one thread; a forked child opens its own."""

    pid = 0
    fd = -1


class _Closer:
    """Closes a thread's file when the thread is gone."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.pid = os.getpid()

    def __del__(self) -> None:
        try:
            os.close(self.fd)
        except OSError:
            pass


class ThreadFileHandler(logging.Handler):
    """Writes process_{pid}_thread_{tid}.log in a folder, made with the first line."""

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
        self._write(text + "\n")

    def is_plain(self) -> bool:
        """Tell whether lines may take the short way: nobody changed format, level or filters."""
        return self.formatter is self._plain_formatter and self.level <= logging.INFO and not self.filters

    def write_lines(self, text: str) -> None:
        """Write each line of *text* with the time before it, all in one write."""
        if self._has_failed:
            return
        file = self._file
        try:
            if file.pid != os.getpid():
                self._open()
            error = _core.track_write(file.fd, text)
            if error:
                raise OSError(error, os.strerror(error), str(self.base_path))
        except OSError as error:
            self._give_up(error)

    def _write(self, text: str) -> None:
        if self._has_failed:
            return
        try:
            if self._file.pid != os.getpid():
                self._open()
            os.write(self._file.fd, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._has_failed = True
        warnings.warn(
            f"tensortap.track writes no log: {error}; set TENSORTAP_LOG_DIR to a folder that can be written",
            RuntimeWarning,
            stacklevel=4,
        )

    def _open(self) -> None:
        self.base_path.mkdir(parents=True, exist_ok=True)
        name = f"process_{os.getpid()}_thread_{threading.get_ident()}.log"
        fd = os.open(self.base_path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._file.fd = fd
        self._file.pid = os.getpid()
        self._file.closer = _Closer(fd)  # type: ignore[attr-defined]


_default: dict[tuple[bytes | None, bytes | None], ThreadFileHandler] = {}


def _default_handler() -> ThreadFileHandler:
    key = _core.track_place()
    handler = _default.get(key)
    if handler is None:
        handler = _default[key] = ThreadFileHandler(log_folder())
    return handler


def h4logger(path: str | os.PathLike[str] | None = None) -> ThreadFileHandler:
    """Return a handler for `logger.addHandler`: a file for each thread below *path*."""
    return ThreadFileHandler(path) if path is not None else ThreadFileHandler(log_folder())


def setup_logger() -> logging.Logger:
    """Give the logger its file handler, once, and return it."""
    if not logger.handlers:
        logger.addHandler(_default_handler())
    return logger


_looked_at: tuple[object, bool] = (None, False)


def is_colored() -> bool:
    """Tell whether standard output is a terminal that wants colours."""
    global _looked_at
    out = sys.stdout
    if _looked_at[0] is not out:
        try:
            answer = out is not None and out.isatty() and not os.environ.get("NO_COLOR")
        except (AttributeError, ValueError):
            answer = False
        _looked_at = (out, answer)
    return _looked_at[1]


def log2file(text: object) -> None:
    """Print *text* and write it to the log."""
    write(text if isinstance(text, str) else str(text))


def write(text: str) -> None:
    """Print lines and log each of them; nothing that fails here reaches the program."""
    out = sys.stdout
    if out is not None:
        try:
            out.write(text + "\n")
        except UnicodeEncodeError:
            encoding = getattr(out, "encoding", None) or "ascii"
            out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        except (OSError, ValueError):
            pass  # closed, or nobody reads it
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    handlers = logger.handlers
    if not handlers:
        _default_handler().write_lines(text)
        return
    for handler in handlers:
        if isinstance(handler, ThreadFileHandler) and handler.is_plain():
            handler.write_lines(text)
        else:
            for line in text.split("\n"):
                record = logger.makeRecord(logger.name, logging.INFO, "", 0, line, (), None)
                handler.handle(record)


def _log_change(prestr: str, name: str, value: object, indent: str, lineno: int = 0) -> None:
    """Log one value; of a tuple, as a hook's input is, each item."""
    color = is_colored()
    rows = [(f"{name}[{i}]", item) for i, item in enumerate(value)] if isinstance(value, tuple) else [(name, value)]
    before = f"{prestr} " if prestr else ""
    lines = (
        indent + _core.track_branch(0, 1, _core.track_value(before, one, item, lineno, color), color)
        for one, item in rows
    )
    write("\n".join(lines) or f"{indent}├─ {before}[Var] {name}@{lineno} len(value): 0")
