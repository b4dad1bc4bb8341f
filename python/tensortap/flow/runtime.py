"""The calls of tensortap.flow as one object.

The extension captures; this file checks options and connects the parts.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, SupportsIndex

from tensortap import _core
from tensortap.display import session
from tensortap.files.frames import frame_at
from tensortap.flow.inherited import FOLDER, PREFIX, Guess, arguments_for
from tensortap.flow.render import Destination, RenderOutput, render
from tensortap.flow.selection import Selection

MOST = 2**31 - 1  # of lines and nodes: nobody has more, and it fits into an int of C


def _is_bool(value: object) -> bool:
    """Return whether the value is Python's bool or NumPy's."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def _whole(name: str, value: SupportsIndex, least: int) -> int:
    """Return a whole number, raised to *least* if it is smaller."""
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
    """Capture tensor changes and draw them; the functions of `tensortap.flow` act on one of these.

    Example:
        >>> from tensortap.flow import MonitorRuntime
        >>> MonitorRuntime().flush() is None
        True
    """

    def __init__(self) -> None:
        """Create a runtime that is off."""
        self.arg_hints: dict[str, Any] = {}
        self._selection = Selection()
        self._flow = _core.Flow(self._selection)
        self._destination = Destination()
        self._guess = Guess()

    @property
    def enabled(self) -> bool:
        """Return whether changes are captured now."""
        return self._flow.is_on

    def on(
        self,
        *,
        show: bool | None = None,
        save: bool = False,
        save_dir: str | os.PathLike[str] = FOLDER,
        file_prefix: str = PREFIX,
        max_nodes: int = 12,
        max_vector: int = 32,
        max_matrix: int = 8,
        max_slices: int = 6,
        returns: bool = False,
        arrays: bool = False,
    ) -> MonitorRuntime:
        """Start to capture tensor changes in files under the working directory.

        A second call sets all options again and keeps what was captured.

        Args:
            show: Display the chart at the end. Defaults to whether this is a notebook.
            save: Write the chart to a file at the end.
            save_dir: Folder of the file.
            file_prefix: Begin of the file's name.
            max_nodes: Number of changes to keep, counted from the last.
            max_vector: Most elements to draw of a vector.
            max_matrix: Most rows and columns to draw of a matrix.
            max_slices: Most matrices to draw of a larger tensor.
            returns: Draw what functions return, too.
            arrays: Draw NumPy arrays, too.

        Returns:
            The runtime.

        Raises:
            TypeError: An option has the wrong type.

        Example:
            >>> from tensortap import flow
            >>> _ = flow.on(max_nodes=20)
            >>> flow.off() is None  # nothing has changed
            True
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
        folder = os.getcwd()  # raises if the folder was removed
        if self._selection.enter(folder):
            self._flow.off()  # other files are selected now
        self._flow.set(**options, returns=returns, arrays=arrays, root=self._selection.root)
        self._destination = destination
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
        """Stop capturing, and draw what was captured.

        Args:
            render: Draw; False only stops.
            filename: File in the folder of `on`; its suffix is the format.
            show, save: Instead of the options of `on`.
            clear: Forget what was captured.

        Returns:
            Where the chart went, or None if there is nothing to draw.

        Example:
            >>> from tensortap import flow
            >>> flow.off() is None
            True
        """
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
        """Draw what was captured, and go on capturing.

        Args:
            filename, show, save, clear: As for `off`.

        Returns:
            As `off`.

        Example:
            >>> from tensortap import flow
            >>> flow.flush() is None
            True
        """
        return self._render(filename, show, save, clear)

    def lines(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
    ) -> MonitorRuntime:
        """Keep only changes of some lines; without arguments, of all lines again.

        Args:
            start: The first line.
            end: The last line.
            file: The file. Defaults to that of the caller.

        Returns:
            The runtime.

        Raises:
            ValueError: One end is missing, or the last line comes before the first.

        Example:
            >>> from tensortap import flow
            >>> _ = flow.lines(10, 20, file="train.py")
            >>> _ = flow.lines()
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
            where = frame_at(1).f_code.co_filename if file is None else _path("file", file)
            only = (where, first, last)
        if self._selection.keep(only) and self._flow.is_on:
            self._flow.off()
            self._flow.on()
        return self

    def args(self, **hints: Any) -> MonitorRuntime:
        """Remember values for parameters that `run` has to fill in.

        Args:
            **hints: Values by the name of the parameter.

        Returns:
            The runtime.

        Example:
            >>> from tensortap import flow
            >>> _ = flow.args(size=3)
            >>> flow.run(lambda size: size)
            3
            >>> flow.reset()
        """
        self.arg_hints.update(hints)
        return self

    def run(self, fn: Callable[..., Any], /, **overrides: Any) -> Any:
        """Call a function, and fill in the arguments that are missing.

        They come from `args()`, from names of the caller, from defaults, or are guessed from the
        annotations.

        Args:
            fn: The function.
            **overrides: Arguments by name.

        Returns:
            What the function returns.

        Raises:
            TypeError: No value was found for a parameter.

        Example:
            >>> from tensortap import flow
            >>> flow.run(lambda a, b=2: a + b, a=1)
            3
        """
        if not callable(fn):
            raise TypeError(f"run() needs something to call, not {type(fn).__name__}")
        caller = frame_at(1)
        scopes = [overrides, self.arg_hints, caller.f_locals, caller.f_globals]
        positional, named = arguments_for(fn, scopes, self._guess)
        del caller, scopes  # a frame that is kept keeps its tensors
        return fn(*positional, **named)

    @contextmanager
    def watch(self, **options: Any) -> Iterator[MonitorRuntime]:
        """Capture inside a `with` block, and draw at its end.

        Args:
            **options: Those of `on`, and *filename*.

        Yields:
            The runtime.

        Example:
            >>> from tensortap import flow
            >>> with flow.watch(save=False):
            ...     pass
        """
        self.on(**options)
        try:
            yield self
        except BaseException:
            try:
                self.off()  # draw what led to the exception
            except Exception as why:  # the program's exception matters
                session.warn(f"the chart was not drawn: {why}")
            raise
        self.off()

    def reset(self) -> None:
        """Stop capturing, and forget changes, the values of `args` and the lines of `lines`.

        Example:
            >>> from tensortap import flow
            >>> flow.reset()
        """
        self._flow.off()
        self._flow.clear()
        self._flow.take_errors()
        self.arg_hints.clear()
        self._selection.keep(None)

    def _render(
        self,
        filename: str | os.PathLike[str] | None,
        show: bool | None,
        save: bool | None,
        clear: bool,
    ) -> RenderOutput | None:
        _flag("clear", clear)
        given = {
            "filename": None if filename is None else _path("filename", filename),
            "show": _flag("show", show, or_none=True),
            "save": _flag("save", save, or_none=True),
        }
        given = {name: value for name, value in given.items() if value is not None}
        destination = replace(self._destination, **given)
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
            session.warn(
                f"tensortap.flow could not look at {count} changes; the first because of: {first}"
            )
