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
from collections.abc import AsyncGenerator, Callable, Generator
from time import perf_counter
from typing import Any, TypeVar

from tensortap.track.inherited import words
from tensortap.track.log import log

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
        where, rest = "?", "args"
        names: tuple[str, ...] = ()
        if self.code is not None:
            where = f"{os.path.basename(self.code.co_filename)}:{self.code.co_firstlineno}"
            count = self.code.co_argcount
            names = self.code.co_varnames[:count]
            if self.code.co_flags & inspect.CO_VARARGS:
                rest = self.code.co_varnames[count + self.code.co_kwonlyargcount]
        head = f"[{where}] {word['function']} [{self.name}] {word['called']} "
        first = 1 if names[:1] in (("self",), ("cls",)) else 0
        #: as track/engine.h has it
        self.site = (
            self.name,
            head,
            word["input"],
            word["output"],
            f"{word['time']} {self.name}: ",
            rest,
            names,
            first,
            _defaults(func),
        )


def _failure(error: BaseException) -> tuple[str, str]:
    """Return the class and the text of an exception."""
    try:
        text = str(error)
    except Exception:
        text = "?"
    size = len(text)
    short = text if size <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}… (length {size})"
    return type(error).__name__, short


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


def _plain(
    func: Callable[..., Any], described: Described, made: Callable[[], Watching] | None
) -> Callable[..., Any]:
    begin, end, site = log.begin, log.end, described.site

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        token = begin(site, args, kwargs)
        watching = made() if made is not None else None
        try:
            if watching is not None:
                watching.resume(log.depth)
            try:
                result = func(*args, **kwargs)
            finally:
                if watching is not None:
                    watching.pause()
        except BaseException as error:
            log.stop(site, token, *_failure(error), None)
            raise
        end(site, token, result, None)
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
        before = log.depth
        self.token = log.begin(described.site, args, kwargs)
        self.depth = log.depth
        log.depth = before
        self.seconds = 0.0

    def __enter__(self) -> None:
        self.before = log.depth
        log.depth = self.depth
        if self.watching is not None:
            self.watching.resume(self.depth)
        self.start = perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds += perf_counter() - self.start
        if self.watching is not None:
            self.watching.pause()
        log.depth = self.before

    def _write(self, write: Callable[..., None], *what: object) -> None:
        """Write the end, and leave the tree around it as it was."""
        before = log.depth
        write(self.described.site, self.token, *what, self.seconds)
        log.depth = before

    def end(self, value: object) -> None:
        """Log what came out in the end."""
        self._write(log.end, value)

    def fail(self, error: BaseException, *, is_closed: bool = False) -> None:
        """Log that it ended by an exception, or was closed before its end."""
        self._write(log.stop, *((None, "closed") if is_closed else _failure(error)))

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
                log.yields(self.described.site, self.token, "yield", item)
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
            log.yields(body.described.site, body.token, "yield", item)
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
    return " <- ".join(f"{os.path.basename(file)}:{line}" for _, file, line in log.stack())


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
        depth = log.depth
        rows = [
            (depth, 1, f"{os.path.basename(file)}:{line} {caller}")
            for caller, file, line in reversed(log.stack())
        ]
        if rows:
            rows[-1] = (depth, 2, rows[-1][2])
        log.lines((depth, 0, f"stack of [{name}]"), *rows)
        return func(*args, **kwargs)

    return functools.wraps(func)(wrapper)  # type: ignore[return-value]
