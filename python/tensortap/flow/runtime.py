"""The calls of tensortap.flow as one object.

Capturing is the extension's; this file checks options and holds the parts together.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, SupportsIndex

from tensortap import _core
from tensortap.flow.guess import Guess, arguments_for
from tensortap.flow.render import Destination, RenderOutput, render, tell
from tensortap.flow.selection import Selection
from tensortap.runs import process

MOST = 2**31 - 1  # of lines and nodes: nobody has more, and it fits into an int of C


def _is_bool(value: object) -> bool:
    """Say whether it is Python's bool or NumPy's."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def _whole(name: str, value: SupportsIndex, least: int) -> int:
    """Check a whole number; below the least it is the least."""
    try:
        if _is_bool(value):  # older NumPy's have an __index__
            raise TypeError
        return min(max(operator.index(value), least), MOST)
    except TypeError:  # a tensor with a fraction has an __index__ and refuses
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None


def _flag(name: str, value: object, *, or_none: bool = False) -> Any:
    if or_none and value is None:
        return None
    if _is_bool(value):
        return bool(value)
    wanted = "a bool or None" if or_none else "a bool"
    raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def _path(name: str, value: str | os.PathLike[str]) -> str:
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else value
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a str or a path, not {type(value).__name__}")
    return path


class MonitorRuntime:
    """Captures tensor changes and draws them."""

    def __init__(self) -> None:
        """Make one that is off."""
        self.arg_hints: dict[str, Any] = {}
        self._selection = Selection()
        self._flow = _core.Flow(self._selection)
        self._flow.runs = process.open_runs  # changes go to the innermost run that is open
        self._destination = Destination()
        self._guess = Guess()

    @property
    def enabled(self) -> bool:
        """Say whether changes are captured now."""
        return self._flow.is_on

    def on(
        self,
        *,
        show: bool | None = None,
        save: bool = False,
        save_dir: str | os.PathLike[str] = "monitorch_outputs",
        file_prefix: str = "tensor_flow",
        max_nodes: int = 12,
        max_vector: int = 32,
        max_matrix: int = 8,
        max_slices: int = 6,
        returns: bool = False,
        arrays: bool = False,
    ) -> MonitorRuntime:
        """Start to capture tensor changes in files under the working directory.

        The last *max_nodes* changes are kept.  *show* None means: if this is a
        notebook.  *returns* adds what functions return, *arrays* NumPy arrays.
        Called again, it sets all options anew and keeps the nodes.
        """
        if not isinstance(file_prefix, str):
            raise TypeError(f"file_prefix must be a str, not {type(file_prefix).__name__}")
        destination = Destination(
            show=_flag("show", show, or_none=True),
            save=_flag("save", save),
            save_dir=_path("save_dir", save_dir),
            file_prefix=file_prefix,
        )
        options = {
            "max_nodes": _whole("max_nodes", max_nodes, 1),
            "max_vector": _whole("max_vector", max_vector, 4),
            "max_matrix": _whole("max_matrix", max_matrix, 4),
            "max_slices": _whole("max_slices", max_slices, 1),
        }
        returns, arrays = _flag("returns", returns), _flag("arrays", arrays)
        folder = os.getcwd()  # fails where somebody removed it
        self._flow.set(**options, returns=returns, arrays=arrays)
        self._destination = destination
        if self._selection.enter(folder):
            self._flow.off()  # what was left out may be in now
            self._flow.root = self._selection.root
        self._flow.on()
        return self

    def off(
        self,
        *,
        render: bool = True,
        filename: str | os.PathLike[str] | None = None,
        show: bool | None = None,
        save: bool | None = None,
        clear: bool = True,
    ) -> RenderOutput | None:
        """Stop, and draw what was captured; None if there is nothing."""
        self._flow.off()
        self._tell_errors()
        if not _flag("render", render):
            return None
        return self._render(filename, show, save, clear)

    def flush(
        self,
        *,
        filename: str | os.PathLike[str] | None = None,
        show: bool | None = None,
        save: bool | None = None,
        clear: bool = True,
    ) -> RenderOutput | None:
        """Draw what was captured and go on; None if there is nothing."""
        return self._render(filename, show, save, clear)

    def lines(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
    ) -> MonitorRuntime:
        """Keep only changes of the lines from *start* to *end* of a file, by default the caller's.

        Without arguments all lines count again.
        """
        if start is None and end is None:
            if file is not None:
                raise ValueError("lines() needs the first and the last line of the file")
            only = None
        elif start is None or end is None:
            raise ValueError("lines() needs both ends: lines(start, end)")
        else:
            first, last = _whole("start", start, -1), _whole("end", end, -1)
            if first < 1:
                raise ValueError(f"lines are counted from 1, not from {start}")
            if last < first:
                raise ValueError(f"line {end} comes before line {start}")
            where = sys._getframe(1).f_code.co_filename if file is None else _path("file", file)
            only = (where, first, last)
        if self._selection.keep(only) and self._flow.is_on:
            self._flow.off()
            self._flow.on()
        return self

    def args(self, **hints: Any) -> MonitorRuntime:
        """Remember values for parameters that `run` has to fill in."""
        self.arg_hints.update(hints)
        return self

    def run(self, fn: Callable[..., Any], /, **overrides: Any) -> Any:
        """Call *fn*; what is not given comes from `args()`, the caller, defaults or guesses."""
        if not callable(fn):
            raise TypeError(f"run() needs something to call, not {type(fn).__name__}")
        caller = sys._getframe(1)
        scopes = [overrides, self.arg_hints, caller.f_locals, caller.f_globals]
        positional, named = arguments_for(fn, scopes, self._guess)
        del caller, scopes  # a frame that is kept keeps its tensors
        return fn(*positional, **named)

    @contextmanager
    def watch(self, **options: Any) -> Iterator[MonitorRuntime]:
        """Capture inside of a with block, and draw at its end."""
        self.on(**options)
        try:
            yield self
        except BaseException:
            self._off_beside_an_exception()
            raise
        self.off()

    def reset(self) -> None:
        """Stop, and forget nodes, hints and the line filter."""
        self._flow.off()
        self._flow.clear()
        self._flow.take_errors()
        self.arg_hints.clear()
        self._selection.keep(None)

    def _off_beside_an_exception(self) -> None:
        """Draw what led to it; where that fails too, the program's exception is the news."""
        try:
            self.off()
        except Exception as why:
            tell(f"the chart was not drawn: {why}")

    def _render(
        self,
        filename: str | os.PathLike[str] | None,
        show: bool | None,
        save: bool | None,
        clear: bool,
    ) -> RenderOutput | None:
        _flag("clear", clear)
        destination = self._destination.changed(
            filename=None if filename is None else _path("filename", filename),
            show=_flag("show", show, or_none=True),
            save=_flag("save", save, or_none=True),
        )
        if len(self._flow) == 0:
            return None
        drawn = self._flow.copy()  # other threads go on while this one draws
        output = render(drawn, destination)
        if clear:
            self._flow.clear(drawn)
        return output

    def _tell_errors(self) -> None:
        count, first = self._flow.take_errors()
        if count:
            tell(f"tensortap.flow could not look at {count} changes; the first because of: {first}")
