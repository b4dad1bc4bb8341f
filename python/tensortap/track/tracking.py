"""Changes of variables, line by line: var_tracker, block and debug_trace.

This file decides which names are watched, and until when; tracker.py watches them.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from types import CodeType, TracebackType
from typing import Any, TypeVar

from tensortap import _core
from tensortap.compiled.hooks import never_compile
from tensortap.display import session
from tensortap.files.frames import frame_at
from tensortap.files.owners import Owner, owner_of
from tensortap.track.calls import Described, Watching, wrap
from tensortap.track.description import Tolerance
from tensortap.track.inherited import words
from tensortap.track.log import log
from tensortap.track.rendering import Branch
from tensortap.track.tracker import Tracker

F = TypeVar("F", bound=Callable[..., Any])


class _Active(threading.local):
    """The trackers at work in this thread, and how many calls hold each."""

    def __init__(self) -> None:
        self.trackers: list[_Names] = []


_active = _Active()


REPLACED = (
    "tensortap.track: a debugger (or sys.settrace) took the lines over while variables were "
    "tracked; later changes in this call were not seen.  Start the debugger first, as with "
    "python -m pdb, or use Python 3.12"
)


def _is_replaced() -> bool:
    """Return whether another trace function has replaced ours; 3.12 needs none."""
    return sys.version_info < (3, 12) and type(sys.gettrace()).__name__ != "LineTracer"


def _warn(error: Exception) -> None:
    session.warn(f"tensortap.track does not see all variables: {error}")


class _Names(Watching):
    """Tracks names while calls that want them are open; leaves to others what they track."""

    def __init__(self, names: tuple[str, ...], tolerance: Tolerance, root: CodeType | None) -> None:
        self.names = names
        self.tolerance = tolerance
        self.root = root
        self.roots: set[CodeType] = set()
        self.tracker: Tracker | None = None
        self.shared: list[tuple[_Names, int]] = []
        self.calls = 0  # open calls that use the tracker: in greenlets the first may end first
        self.is_open = False

    def resume(self, depth: int) -> None:
        left = self.names
        self.shared = []
        for other in _active.trackers:
            if (
                other.tolerance == self.tolerance
                and set(left) & set(other.names)
                and other.tracker is not None
            ):
                left = tuple(name for name in left if name not in other.names)
                self.shared.append((other, other.tracker.depth))
                if self.root is not None:
                    other.roots.add(self.root)
                other.tracker.depth = depth
                other.calls += 1
        if not left:
            return
        try:
            self._start(left, depth)
        except Exception as error:
            self.tracker = None
            _warn(error)

    def _start(self, left: tuple[str, ...], depth: int) -> None:
        if self.tracker is None:
            if self.root is not None:
                self.roots.add(self.root)
            self.tracker = Tracker(left, self.roots, self.tolerance)
        self.tracker.depth = depth
        self.tracker.start()
        _active.trackers.append(self)
        self.calls, self.is_open = 1, True

    def pause(self) -> None:
        if self.is_open:
            self.is_open = False
            self._release()
        for other, depth in self.shared:
            if other.tracker is not None:
                other.tracker.depth = depth
            other._release()
        self.shared = []

    def _release(self) -> None:
        self.calls -= 1
        if self.calls > 0:
            return
        if self in _active.trackers:
            _active.trackers.remove(self)
            if _is_replaced():
                session.warn(REPLACED)
        if self.tracker is not None:
            count, text = self.tracker.stop()
            if count:
                _warn(RuntimeError(f"{count} looks failed, the first with {text}"))


def _unique(names: tuple[str, ...], example: str) -> tuple[str, ...]:
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"give the names of variables: {example}")
    return tuple(dict.fromkeys(names))


def _tolerance(rtol: float | None, atol: float | None) -> Tolerance:
    return None if rtol is None and atol is None else (rtol or 0.0, atol or 0.0)


def var_tracker(
    *names: str, rtol: float | None = None, atol: float | None = None
) -> Callable[[F], F]:
    """Log the calls of a function, and each change of the named variables, in callees too.

    Args:
        *names: The variables.
        rtol: Values that are close are not a change; a copy of each value is kept for this.
        atol: See *rtol*.

    Returns:
        A decorator.

    Example:
        >>> from tensortap.track import var_tracker
        >>> @var_tracker("y")
        ... def double(x):
        ...     y = 2 * x
        ...     return y
        >>> y = double(2)
        ┌── [...] function [double] called at ...
        ├─ input [Var] x@0 value: 2
        │   ├─ [Var] y@... value: 4
        └─ output value: 4
        └─ time double: ... s
    """
    unique = _unique(names, '@var_tracker("x", "y")')
    tolerance = _tolerance(rtol, atol)

    def watch(described: Described) -> Callable[[], Watching]:
        return lambda: _Names(unique, tolerance, described.code)

    return lambda func: wrap(func, watch)


class block:
    """Log each change of the named variables in the body of a `with` statement, and in callees.

    Args:
        *names: The variables.
        rtol: Values that are close are not a change; a copy of each value is kept for this.
        atol: See *rtol*.

    Example:
        >>> from tensortap.track import block
        >>> with block("x"):
        ...     x = 1
        ┌── [...] block [x]
        ...
        └─ time block: ... s
    """

    def __init__(self, *names: str, rtol: float | None = None, atol: float | None = None) -> None:
        """Name what to look at."""
        self._names = _unique(names, 'with block("x", "y"):')
        self._tolerance = _tolerance(rtol, atol)

    def __enter__(self) -> block:
        frame = frame_at(1)
        self._depth = log.depth
        where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        log.lines((self._depth, Branch.CALL, f"[{where}] block [{', '.join(self._names)}]"))
        log.depth = self._depth + 1
        self._watching = _Names(self._names, self._tolerance, frame.f_code)
        self._start = perf_counter()
        self._watching.resume(self._depth + 1)
        if self._watching.tracker is not None:
            self._watching.tracker.adopt(frame)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = perf_counter() - self._start
        self._watching.pause()
        log.depth = self._depth
        word = words()
        last = (self._depth, Branch.LAST, f"{word['time']} block: {seconds:.4f} s")
        if kind is None:
            log.lines(last)
        else:
            log.lines(
                (self._depth, Branch.LAST, f"{word['output']} raised {kind.__name__}: {error}"),
                last,
            )


class _Lines(Watching):
    """Logs entry, lines and exit of every function of the user's, while on."""

    def __init__(self, root: CodeType | None) -> None:
        self.root = root
        self.depths: dict[int, int] = {}
        self.depth = 0
        self.watch: _core.LineWatch | None = None

    def resume(self, depth: int) -> None:
        self.depth = depth
        try:
            self.watch = _core.watch_lines(
                enter=self._enter,
                line=self._line,
                leave=self._leave,
                select=self._select,
                threads="own",
            )
        except Exception as error:
            _warn(error)

    def pause(self) -> None:
        if self.watch is not None:
            self.watch.close()
        self.watch = None

    def _select(self, code: CodeType) -> bool:
        return code is self.root or owner_of(code) is Owner.PROGRAM

    def _enter(self, event: Any) -> None:
        if event.is_resumed and event.frame in self.depths:
            return
        depth = self.depths[event.frame] = self.depths.get(event.caller, self.depth - 1) + 1
        code = event.code
        where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        log.lines((depth, Branch.CALL, f"[{where}] enter [{code.co_name}]"))

    def _line(self, event: Any) -> None:
        depth = self.depths.get(event.frame, self.depth)
        text = linecache.getline(event.code.co_filename, event.line).strip()
        log.lines((depth, Branch.ENTRY, f"{event.line}: {text}"))

    def _leave(self, event: Any) -> None:
        depth = (
            self.depths.get(event.frame, self.depth)
            if event.is_yield
            else self.depths.pop(event.frame, self.depth)
        )
        how = "yield from" if event.is_yield else "exit"
        log.lines(
            (
                depth,
                Branch.ENTRY if event.is_yield else Branch.LAST,
                f"{how} [{event.code.co_name}]",
            )
        )


never_compile(_Lines._enter, _Lines._line, _Lines._leave, _Lines._select)


def debug_trace(func: F) -> F:
    """Log entry, every line and exit of a function and of the user's functions that it calls.

    Args:
        func: The function to decorate.

    Returns:
        The function, decorated.

    Example:
        >>> from tensortap.track import debug_trace
        >>> double = debug_trace(lambda x: 2 * x)
    """
    return wrap(func, lambda described: lambda: _Lines(described.code))
