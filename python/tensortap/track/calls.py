"""Decorators that log calls: who called, with what, what came out, how long it took.

One wrapper for each kind of function, so that a decorated generator is still a
generator function and a coroutine function still one.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import AsyncGenerator, Callable, Generator
from time import perf_counter
from typing import Any, TypeVar

from tensortap import _core
from tensortap.track.log import _indent, is_colored, write

F = TypeVar("F", bound=Callable[..., Any])

#: files below this folder are ours: not shown among the callers
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_WORDS = {
    "en": {"function": "function", "called": "called at", "input": "input", "output": "output", "time": "time"},
    "zh": {"function": "函数", "called": "被调用于", "input": "输入", "output": "输出", "time": "耗时"},
}


def words() -> dict[str, str]:
    """Return the labels of the language that TENSORTAP_LANG names."""
    return _WORDS["zh" if os.environ.get("TENSORTAP_LANG", "").lower().startswith("zh") else "en"]


class Watching:
    """What a decorator does while the body runs; nothing, for auto_diff."""

    def resume(self, depth: int) -> None:
        """The body starts or goes on."""

    def pause(self) -> None:
        """The body has ended or is suspended."""


class Described:
    """What is known of a function before it is called."""

    def __init__(self, func: Callable[..., Any]) -> None:
        word = words()
        code = getattr(inspect.unwrap(func), "__code__", None)
        self.code: types.CodeType | None = code if isinstance(code, types.CodeType) else None
        qualname: str = getattr(func, "__qualname__", type(func).__qualname__)
        self.name = qualname.rsplit("<locals>.", 1)[-1]
        self.input = word["input"]
        self.output = word["output"]
        self.time = f"{word['time']} {self.name}: "
        where = "?"
        self.names: tuple[str, ...] = ()
        self.rest = "args"
        if self.code is not None:
            where = f"{os.path.basename(self.code.co_filename)}:{self.code.co_firstlineno}"
            count = self.code.co_argcount
            self.names = self.code.co_varnames[:count]
            if self.code.co_flags & inspect.CO_VARARGS:
                self.rest = self.code.co_varnames[count + self.code.co_kwonlyargcount]
        self.first = 1 if self.names[:1] in (("self",), ("cls",)) else 0
        self.head = f"[{where}] {word['function']} [{self.name}] {word['called']} "

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Log the call and go one deeper; return the depth to come back to."""
        depth = _indent.level
        write(
            _core.track_call(
                self.head, self.names, self.rest, args, kwargs, self.input, depth, is_colored(), OWN, self.first
            )
        )
        _indent.level = depth + 1
        return depth

    def end(self, depth: int, value: object, seconds: float) -> None:
        """Log the result."""
        write(_core.track_result(value, self.output, f"{self.time}{seconds:.4f} s", depth, is_colored()))

    def fail(self, depth: int, error: BaseException, seconds: float) -> None:
        """Log the exception in place of the result."""
        try:
            text = str(error)
        except Exception:
            text = "?"
        text = text if len(text) <= 200 else f"{text[:200]}… (length {len(text)})"
        color = is_colored()
        what = f"\x1b[1;31m{type(error).__name__}\x1b[0m" if color else type(error).__name__
        last = _core.track_branch(depth, 2, f"{self.output} raised {what}: {text}", color)
        write(last + "\n" + _core.track_branch(depth, 2, f"{self.time}{seconds:.4f} s", color))


def auto_diff(func: F) -> F:
    """Log each call of *func*: where from, inputs, outputs, time; nested calls are indented."""
    return wrap(func, lambda described: None)


def wrap(func: F, watch: Callable[[Described], Callable[[], Watching] | None]) -> F:
    """Return *func* logged; *watch* gives what makes a Watching for each call."""
    if isinstance(func, staticmethod | classmethod):
        return type(func)(wrap(func.__func__, watch))  # type: ignore[return-value]
    described = Described(func)
    made = watch(described)
    if inspect.isasyncgenfunction(func):
        wrapper: Callable[..., Any] = _async_generator(func, described, made)
    elif inspect.iscoroutinefunction(func):
        wrapper = _coroutine(func, described, made)
    elif inspect.isgeneratorfunction(func):
        wrapper = _generator(func, described, made)
    else:
        wrapper = _plain(func, described, made)
    return functools.wraps(func)(wrapper)  # type: ignore[return-value]


def _plain(
    func: Callable[..., Any], described: Described, made: Callable[[], Watching] | None
) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        depth = described.begin(args, kwargs)
        watching = made() if made is not None else None
        start = perf_counter()
        try:
            if watching is not None:
                watching.resume(depth + 1)
            try:
                result = func(*args, **kwargs)
            finally:
                if watching is not None:
                    watching.pause()
                _indent.level = depth
        except BaseException as error:
            described.fail(depth, error, perf_counter() - start)
            raise
        described.end(depth, result, perf_counter() - start)
        return result

    return wrapper


class _Body:
    """A generator or coroutine as it runs in pieces, with its place in the tree."""

    def __init__(self, described: Described, made: Callable[[], Watching] | None, depth: int) -> None:
        self.described = described
        self.watching = made() if made is not None else None
        self.depth = depth
        self.seconds = 0.0
        self.before = 0

    def __enter__(self) -> None:
        self.before = _indent.level
        _indent.level = self.depth + 1
        if self.watching is not None:
            self.watching.resume(self.depth + 1)
        self.start = perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds += perf_counter() - self.start
        if self.watching is not None:
            self.watching.pause()
        _indent.level = self.before

    def drive(self, inner: Any, shows_yields: bool) -> Generator[Any, Any, Any]:
        """Run *inner* to its end; what goes in and out is handed on."""
        step, given = inner.send, None
        while True:
            try:
                with self:
                    item = step(given)
            except StopIteration as stop:
                self.described.end(self.depth, stop.value, self.seconds)
                return stop.value
            except BaseException as error:
                self.described.fail(self.depth, error, self.seconds)
                raise
            if shows_yields:
                write(_core.track_result(item, "yield", "", self.depth, is_colored()))
            try:
                given = yield item
                step = inner.send
            except GeneratorExit:
                with self:
                    inner.close()
                write(_core.track_branch(self.depth, 2, f"{self.described.output} closed", is_colored()))
                raise
            except BaseException as error:
                step, given = inner.throw, error


def _generator(
    func: Callable[..., Any], described: Described, made: Callable[[], Watching] | None
) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = func(*args, **kwargs)
        depth = described.begin(args, kwargs)
        _indent.level = depth
        return (yield from _Body(described, made, depth).drive(inner, True))

    return wrapper


def _coroutine(
    func: Callable[..., Any], described: Described, made: Callable[[], Watching] | None
) -> Callable[..., Any]:
    @types.coroutine
    def driven(body: _Body, inner: Any) -> Generator[Any, Any, Any]:
        return (yield from body.drive(inner, False))

    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        inner = func(*args, **kwargs)
        depth = described.begin(args, kwargs)
        _indent.level = depth
        return await driven(_Body(described, made, depth), inner)

    return wrapper


def _async_generator(
    func: Callable[..., Any], described: Described, made: Callable[[], Watching] | None
) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = func(*args, **kwargs)
        depth = described.begin(args, kwargs)
        _indent.level = depth
        body = _Body(described, made, depth)
        step: Any = inner.asend
        given: Any = None
        while True:
            try:
                with body:
                    item = await step(given)
            except StopAsyncIteration:
                described.end(depth, None, body.seconds)
                return
            except BaseException as error:
                described.fail(depth, error, body.seconds)
                raise
            write(_core.track_result(item, "yield", "", depth, is_colored()))
            try:
                given = yield item
                step = inner.asend
            except GeneratorExit:
                await inner.aclose()
                write(_core.track_branch(depth, 2, f"{described.output} closed", is_colored()))
                raise
            except BaseException as error:
                step, given = inner.athrow, error

    return wrapper


def get_call_stack() -> str:
    """Return who called, innermost first: "file.py:34 <- loop.py:8 <- main.py:3"."""
    rows = _core.track_stack(OWN)
    return " <- ".join(f"{os.path.basename(file)}:{line}" for _, file, line in rows)


def fstack(func: F) -> F:
    """Log the whole call stack, outermost first, each time *func* is called."""
    if isinstance(func, staticmethod | classmethod):
        return type(func)(fstack(func.__func__))  # type: ignore[return-value]
    described = Described(func)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        rows = _core.track_stack(OWN)
        color = is_colored()
        depth = _indent.level
        lines = [_core.track_branch(depth, 0, f"stack of [{described.name}]", color)]
        for i, (name, file, line) in enumerate(reversed(rows)):
            branch = 2 if i == len(rows) - 1 else 1
            lines.append(_core.track_branch(depth, branch, f"{os.path.basename(file)}:{line} {name}", color))
        write("\n".join(lines))
        return func(*args, **kwargs)

    return functools.wraps(func)(wrapper)  # type: ignore[return-value]


def user_prefixes() -> tuple[str, ...]:
    """Return the folders whose code is not the user's: Python's and what was installed."""
    import sysconfig

    found = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch, "__file__", None):
        found.add(os.path.dirname(str(torch.__file__)))
    return (*(os.path.join(path, "") for path in sorted(found)), "<frozen", OWN)
