"""Decorators that log calls: who called, with what, what came out, how long it took.

One wrapper for each kind of function, so that a decorated generator is still a
generator function and a coroutine function still one.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from tensortap import _core
from tensortap.compiled.hooks import opaque
from tensortap.files.frames import foreign_frames_from, frame_at
from tensortap.track.description import Description
from tensortap.track.inherited import words
from tensortap.track.log import log
from tensortap.track.rendering import MOST_ITEMS, Branch, any_text, branch_text, named_text

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_ERROR = 200


class Watching:
    """What a decorator does while the body runs; nothing, for auto_diff."""

    def resume(self, depth: int) -> None:
        """Start watching: the body starts or continues."""

    def pause(self) -> None:
        """Stop watching: the body has ended or is suspended."""


class Described:
    """What is known of a function before it is called."""

    def __init__(self, func: Callable[..., Any]) -> None:
        """Look at *func*."""
        if not callable(func):
            raise TypeError(f"what is tracked must be a function, not {func!r}")
        word = words()
        code = getattr(inspect.unwrap(func), "__code__", None)
        self.code: types.CodeType | None = code if isinstance(code, types.CodeType) else None
        qualname: str = getattr(func, "__qualname__", type(func).__qualname__)
        self.name = qualname.rsplit("<locals>.", 1)[-1]
        self.rest = "args"  # name of *args
        self.names: tuple[str, ...] = ()  # of the positional parameters
        where = "?"
        if self.code is not None:
            where = f"{os.path.basename(self.code.co_filename)}:{self.code.co_firstlineno}"
            count = self.code.co_argcount
            self.names = self.code.co_varnames[:count]
            if self.code.co_flags & inspect.CO_VARARGS:
                self.rest = self.code.co_varnames[count + self.code.co_kwonlyargcount]
        self.first = 1 if self.names[:1] in (("self",), ("cls",)) else 0  # argument to log
        self.defaults = _defaults(func)
        self.head = f"[{where}] {word['function']} [{self.name}] {word['called']} "
        self.input, self.output = word["input"], word["output"]
        self.time = f"{word['time']} {self.name}: "

    def arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[tuple[str, object]]:
        """Yield the name and value of each argument, those left at their default last."""
        named = len(self.names)
        for i in range(self.first, len(args)):
            yield (self.names[i] if i < named else f"{self.rest}[{i - named}]"), args[i]
        yield from kwargs.items()
        for name, position, value in self.defaults:
            if (position < 0 or position >= len(args)) and name not in kwargs:
                yield name, value


def _failure(error: BaseException, colors: dict[str, str]) -> str:
    """Return "raised ValueError: text"."""
    try:
        text = str(error)
    except Exception:
        text = "?"
    size = len(text)
    short = text if size <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}… (length {size})"
    return f"raised {colors['alarm']}{type(error).__name__}{colors['plain']}: {short}"


def _defaults(func: Any) -> tuple[tuple[str, int, Any], ...]:
    """Return (name, position or -1, value) of each parameter with a default.

    None of a wrapper: it may call what it wraps with other arguments.
    """
    if not isinstance(func, types.FunctionType) or hasattr(func, "__wrapped__"):
        return ()
    code, values = func.__code__, func.__defaults__ or ()
    start = code.co_argcount - len(values)
    return (
        *((code.co_varnames[start + i], start + i, value) for i, value in enumerate(values)),
        *((name, -1, value) for name, value in (func.__kwdefaults__ or {}).items()),
    )


def auto_diff(func: F) -> F:
    """Log each call of a function: caller, inputs, outputs, time; nested calls are indented.

    Args:
        func: The function.

    Returns:
        The decorated function.

    Example:
        >>> from tensortap.track import auto_diff
        >>> @auto_diff
        ... def double(x):
        ...     return 2 * x
        >>> y = double(2)
        ┌── [...] function [double] called at ...
        ├─ input [Var] x@0 value: 2
        └─ output value: 4
        └─ time double: ... s
    """
    return wrap(func, lambda described: None)


def wrap(func: F, watch: Callable[[Described], Callable[[], Watching] | None]) -> F:
    """Return *func* logged; *watch* gives what makes a Watching for each call."""
    if isinstance(func, (staticmethod, classmethod)):
        return type(func)(wrap(func.__func__, watch))
    described = Described(func)
    made = watch(described)
    begin = functools.partial(_Body, described, made)
    if inspect.isasyncgenfunction(func):
        wrapper: Callable[..., Any] = _async_generator(func, begin)
    elif inspect.iscoroutinefunction(func):
        wrapper = _coroutine(func, begin)
    elif inspect.isgeneratorfunction(func):
        wrapper = _generator(func, begin)
    else:
        wrapper = _plain(func, described, made)
    return functools.wraps(func)(wrapper)  # type: ignore[return-value]


# ---- lines


class _CallLines:
    """The lines of one call that are written together, and its values in the open run."""

    def __init__(self, function: Described, depth: int) -> None:
        self.function, self.depth = function, depth
        self.is_colored, self.colors = log.is_colored, log.colors()
        self.texts: list[str] = []

    def add(self, branch: Branch, text: str) -> None:
        self.texts.append(branch_text(self.depth, branch, text, is_colored=self.is_colored))

    def add_input(self, name: str, value: object) -> None:
        text = named_text(name, 0, Description(value), value, self.colors)
        self.add(Branch.ENTRY, f"{self.function.input} {text}")
        self.record(name, value)

    def add_outputs(self, label: str, value: Any, last: Branch) -> None:
        """Add a result; items of a short tuple or list have a line each."""
        items: list[object] = []
        with suppress(Exception):  # a class of the program's own
            if isinstance(value, tuple | list) and len(value) <= MOST_ITEMS:
                items = list(value)  # a repr may change the list
        for i, item in enumerate(items):
            branch = last if i == len(items) - 1 else Branch.ENTRY
            self.add(branch, f"{label}[{i}] {any_text(item, self.colors)}")
            self.record(f"output[{i}]", item)
        if not items:
            self.add(last, f"{label} {any_text(value, self.colors)}")
            self.record("output", value)

    def add_time(self, seconds: float) -> None:
        self.add(Branch.LAST, f"{self.function.time}{seconds:.4f} s")
        self.record("time", seconds)

    def record(self, name: str, value: object) -> None:
        _core.track_record(f"call/{self.function.name}/{name}", value)

    def write(self) -> None:
        log.write("".join(self.texts))


class _Token(NamedTuple):
    """The place of a call in the tree, and when it began."""

    depth: int
    start: float


def _begin(function: Described, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Token:
    """Write who called and the inputs, and go one deeper."""
    depth = log.depth
    with suppress(Exception):  # no memory, or no stack left
        lines = _CallLines(function, depth)
        lines.add(Branch.CALL, function.head + _callers())
        for name, value in function.arguments(args, kwargs):
            lines.add_input(name, value)
        lines.write()
    log.depth = depth + 1
    return _Token(depth, perf_counter())


def _end(function: Described, token: _Token, value: object, seconds: float | None) -> None:
    """Write the outputs and the time; *seconds*: None: since the token was made."""
    if seconds is None:
        seconds = perf_counter() - token.start
    log.depth = token.depth
    with suppress(Exception):
        lines = _CallLines(function, token.depth)
        lines.add_outputs(function.output, value, Branch.LAST)
        lines.add_time(seconds)
        lines.write()


def _stop(
    function: Described, token: _Token, error: BaseException | None, seconds: float | None
) -> None:
    """Write the error, or that a generator was closed, and the time."""
    if seconds is None:
        seconds = perf_counter() - token.start
    log.depth = token.depth
    with suppress(Exception):
        lines = _CallLines(function, token.depth)
        why = "closed" if error is None else _failure(error, lines.colors)
        lines.add(Branch.LAST, f"{function.output} {why}")
        lines.add_time(seconds)
        lines.write()


def _write_item(function: Described, token: _Token, value: object) -> None:
    """Write what a generator yields."""
    with suppress(Exception):
        lines = _CallLines(function, token.depth)
        lines.add_outputs("yield", value, Branch.ENTRY)
        lines.write()


# ---- who called


def _is_module_call(frame: types.FrameType) -> bool:
    """Return whether torch calls a forward there; it would hide the callers that matter."""
    return frame.f_code.co_filename.endswith("/torch/nn/modules/module.py")


def _location(frame: types.FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _callers() -> str:
    """Return "caller:34 (file.py:34 <- loop.py:8 <- main.py:3)"."""
    nearest = []
    for frame in foreign_frames_from(frame_at(1)):
        if not _is_module_call(frame):
            nearest.append(frame)
            if len(nearest) == 3:
                break
    if not nearest:
        return "?"
    name, line = nearest[0].f_code.co_name, nearest[0].f_lineno
    return f"{name}:{line} ({' <- '.join(map(_location, nearest))})"


# ---- wrappers


def _resume(made: Callable[[], Watching], token: _Token) -> Watching:
    watching = made()
    watching.resume(token.depth + 1)
    return watching


def _pause(watching: Watching) -> None:
    watching.pause()


begin, end, stop, write_item = opaque(_begin), opaque(_end), opaque(_stop), opaque(_write_item)
resume, pause = opaque(_resume), opaque(_pause)


def _plain(
    func: Callable[..., Any], described: Described, made: Callable[[], Watching] | None
) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        token = begin(described, args, kwargs)
        if token is None:  # inside a compiled graph that cannot be broken
            return func(*args, **kwargs)
        try:
            watching = resume(made, token) if made is not None else None
            try:
                result = func(*args, **kwargs)
            finally:
                if watching is not None:
                    pause(watching)
        except BaseException as error:
            stop(described, token, error, None)
            raise
        end(described, token, result, None)
        return result

    return wrapper


class _Body:
    """A generator or coroutine as it runs in pieces, with its place in the tree."""

    def __init__(
        self,
        described: Described,
        made: Callable[[], Watching] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.described = described
        self.watching = made() if made is not None else None
        self.token: _Token = begin(described, args, kwargs) or _Token(log.depth, perf_counter())
        log.depth = self.token.depth
        self.seconds = 0.0

    def __enter__(self) -> None:
        self.before = log.depth
        log.depth = self.token.depth + 1
        if self.watching is not None:
            self.watching.resume(self.token.depth + 1)
        self.start = perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds += perf_counter() - self.start
        if self.watching is not None:
            self.watching.pause()
        log.depth = self.before

    def _write(self, write: Callable[..., None], what: object) -> None:
        """Write the end, and leave the tree around it as it was."""
        before = log.depth
        write(self.described, self.token, what, self.seconds)
        log.depth = before

    def end(self, value: object) -> None:
        """Log what came out in the end."""
        self._write(end, value)

    def fail(self, error: BaseException, *, is_closed: bool = False) -> None:
        """Log that it ended by an exception, or was closed before its end."""
        self._write(stop, None if is_closed else error)

    def run(self, inner: Any, *, is_generator: bool = False) -> Generator[Any, Any, Any]:
        """Run *inner* to its end, and log that; of a generator what it gives, too."""
        try:
            result = yield from self.drive(inner, logs_items=is_generator)
        except BaseException as error:
            self.fail(error, is_closed=is_generator and isinstance(error, GeneratorExit))
            raise
        self.end(result)
        return result

    def drive(self, inner: Any, *, logs_items: bool = False) -> Generator[Any, Any, Any]:
        """Run *inner* to its end in this place of the tree; hand on what goes in and out."""
        step, given = inner.send, None
        while True:
            with self:
                try:
                    item = step(given)
                except StopIteration as stop:
                    return stop.value
            if logs_items:
                write_item(self.described, self.token, item)
            try:
                given = yield item
                step = inner.send
            except GeneratorExit:
                with self:
                    inner.close()
                raise
            except BaseException as error:
                step, given = inner.throw, error


def _generator(func: Callable[..., Any], begin: Callable[..., _Body]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = func(*args, **kwargs)
        return (yield from begin(args, kwargs).run(inner, is_generator=True))

    return wrapper


@types.coroutine
def _awaited(steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    return (yield from steps)


def _coroutine(func: Callable[..., Any], begin: Callable[..., _Body]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        inner = func(*args, **kwargs)
        return await _awaited(begin(args, kwargs).run(inner))

    return wrapper


def _async_generator(func: Callable[..., Any], begin: Callable[..., _Body]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = func(*args, **kwargs)
        body = begin(args, kwargs)
        step: Any = inner.asend
        given: Any = None
        while True:
            try:
                item = await _awaited(body.drive(step(given).__await__()))
            except StopAsyncIteration:
                body.end(None)
                return
            except BaseException as error:
                body.fail(error)
                raise
            write_item(body.described, body.token, item)
            try:
                given = yield item
                step = inner.asend
            except GeneratorExit as error:
                await _awaited(body.drive(inner.aclose().__await__()))
                body.fail(error, is_closed=True)
                raise
            except BaseException as error:
                step, given = inner.athrow, error

    return wrapper


def get_call_stack() -> str:
    """Return the callers, innermost first.

    Returns:
        Text such as "file.py:34 <- loop.py:8 <- main.py:3".

    Example:
        >>> from tensortap.track import get_call_stack
        >>> stack = get_call_stack()
    """
    return " <- ".join(map(_location, foreign_frames_from(frame_at(1))))


def _write_stack(name: str) -> None:
    """Write who called a function, outermost first."""
    depth = log.depth
    rows = [
        (depth, Branch.ENTRY, f"{_location(frame)} {frame.f_code.co_name}")
        for frame in reversed(list(foreign_frames_from(frame_at(1))))
    ]
    if rows:
        rows[-1] = (depth, Branch.LAST, rows[-1][2])
    log.lines((depth, Branch.CALL, f"stack of [{name}]"), *rows)


write_stack = opaque(_write_stack)


def fstack(func: F) -> F:
    """Log the whole call stack, outermost first, each time a function is called.

    Args:
        func: What to decorate.

    Returns:
        The decorated function.

    Example:
        >>> from tensortap.track import fstack
        >>> double = fstack(lambda x: 2 * x)
    """
    if isinstance(func, (staticmethod, classmethod)):
        return type(func)(fstack(func.__func__))
    name = Described(func).name

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        write_stack(name)
        return func(*args, **kwargs)

    return functools.wraps(func)(wrapper)  # type: ignore[return-value]
