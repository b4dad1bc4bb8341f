"""Where the lines go: standard output, and one file for each thread.

The common case is done in C (`_core.TrackLog`): a stream that is no terminal and a
file that is open.  Here is the rest: folders and files, terminals, other handlers.
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
import warnings
from pathlib import Path

from tensortap import _core
from tensortap.track.rendering import value_text
from tensortap.track.wrapping import wrap

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
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
        """Return whether format, level and filters are unchanged, so that C may write the lines."""
        return (
            self.formatter is self._plain_formatter
            and self.level <= logging.INFO
            and not self.filters
        )

    def write_lines(self, text: str) -> None:
        """Write each line of *text* with the time before it, all in one write."""
        fd = self.file()
        if fd >= 0:
            error = log.write(fd, text.encode("utf-8", "backslashreplace"))
            if error:
                self._give_up(OSError(error, os.strerror(error), str(self.base_path)))

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


_default: dict[Path, ThreadFileHandler] = {}


def default_handler() -> ThreadFileHandler:
    """Return the handler that writes below the folder of the log."""
    from tensortap.track.inherited import log_folder  # imports this file

    folder = log_folder()
    handler = _default.get(folder)
    if handler is None:  # two threads may come here: the first one's stays, with its open file
        handler = _default.setdefault(folder, ThreadFileHandler(folder))
    return handler


# ---- what TrackLog asks for


def _look(out: object) -> tuple[bool, bool]:
    """Return whether a stream is a terminal, and whether to print colours there."""
    try:
        is_terminal = bool(out.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return False, False
    dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("NO_COLOR"))
    return is_terminal, is_terminal and not dumb


def _show(text: str) -> None:
    """Print on a terminal, wrapped to its width, or on a stream that cannot write all letters."""
    out = sys.stdout
    try:
        if out.isatty():
            text = wrap(text, shutil.get_terminal_size((100, 0)).columns)
        out.write(text)
    except UnicodeEncodeError:
        encoding = getattr(out, "encoding", None) or "ascii"
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
    except (OSError, ValueError, AttributeError):
        pass  # closed, or the reader is gone


def _keep(text: str) -> None:
    """Log lines: to the logger's handlers, and to the thread's file if none of them has it."""
    text = _ANSI.sub("", text.rstrip("\n"))
    has_file = False
    for handler in list(logger.handlers):
        is_file = isinstance(handler, ThreadFileHandler)
        has_file = has_file or is_file
        if isinstance(handler, ThreadFileHandler) and handler.is_plain():
            handler.write_lines(text)
        else:
            for line in text.split("\n"):
                handler.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, line, (), None))
    if not has_file:
        handler = default_handler()
        handler.write_lines(text)
        log.file(handler.file())


log = _core.TrackLog(logger, _look, _show, _keep, value_text)
os.register_at_fork(after_in_child=lambda: log.file(-1))


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
    log.text(text if isinstance(text, str) else str(text))
