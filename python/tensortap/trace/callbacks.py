"""Call the user's callbacks in the form that each of them takes.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tensortap.trace.inherited import LISTS, count_parameters
from tensortap.trace.results import GlobalVariableResult, LocalVariableResult

Callback = Callable[..., Any]


class TraceCallbackError(RuntimeError):
    """A callback raised; also an instance of the class that the callback raised.

    Example:
        >>> from tensortap.trace import TraceCallbackError
        >>> issubclass(TraceCallbackError, Exception)
        True
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def checked(argument: str, callbacks: Any) -> list[Callback]:
    """Return the callbacks as a list; one alone is fine."""
    if callable(callbacks):
        callbacks = [callbacks]
    if isinstance(callbacks, (str, bytes)) or not isinstance(callbacks, Iterable):
        raise TypeError(f"{argument} must be a list of functions, not {callbacks!r}")
    found = list(callbacks)
    for callback in found:
        if not callable(callback):
            raise TypeError(f"{argument} must be a list of functions, not one with {callback!r}")
    return found


def pre_save(callbacks: list[Callback], name: str, value: Any, iteration: int) -> Any:
    """Return what is to be kept in place of the value."""
    for callback in callbacks:
        try:
            value = callback(name, value, iteration)
        except Exception as error:
            raise failure("pre_save", callback, name, error) from error
    return value


def run(
    kind: str,
    callbacks: list[Callback],
    name: str,
    result: LocalVariableResult | GlobalVariableResult,
    with_lists: bool,
) -> None:
    """Call each with the name's result; *with_lists*: the form for those that take both."""
    for callback in callbacks:
        count = LISTS if with_lists else 2
        if not getattr(callback, "takes_both_forms", False):
            count = count_parameters(callback)
        try:
            if count == 2:
                callback(name, result)
                continue
            if not isinstance(result.values, list):
                result.values = list(result.values)  # which it may change: rows of a stacked tensor
            arguments = (name, result.values, result.iterations, getattr(result, "ranks", None))
            callback(*arguments[:count])
        except Exception as error:
            raise failure(kind, callback, name, error) from error


def failure(kind: str, callback: Callback, name: str, error: Exception) -> Exception:
    """Make the exception that names the callback and the variable."""
    known = getattr(callback, "__name__", None) or type(callback).__name__
    text = f"{kind} callback {known!r} failed for {name!r}: {type(error).__name__}: {error}"
    try:  # so that `except` with the callback's own class still catches it
        both = type("TraceCallbackError", (TraceCallbackError, type(error)), {})
        made: Exception = both(text)
        return made
    except TypeError:
        return TraceCallbackError(text)
