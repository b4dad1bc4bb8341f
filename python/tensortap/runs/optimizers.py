"""Tell every open run when an optimizer of the process steps.

torch's global optimizer hooks must not change while another thread is in a step.  So
there is one pair of hooks, put with the first run and never taken off, and runs come
and go behind it.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tensortap.compiled.hooks import unseen
from tensortap.files.locks import make_lock
from tensortap.private.optimizers import on_steps

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Listener:
    """What is notified of steps; it keeps its errors to itself."""

    def before_step(self, optimizer: Any) -> None:
        """Look at the optimizer before it steps, and before its closure runs."""

    def gradients_ready(self, optimizer: Any) -> None:
        """Look at it right before the step, or after its closure has run for the first time."""

    def after_step(self, optimizer: Any) -> None:
        """Look at it after it has stepped."""


_lock = make_lock()
_listeners: tuple[Listener, ...] = ()  # replaced, never changed: a thread may be reading it
_has_hooks = False


def listen(listener: Listener) -> None:
    """Notify *listener* of every step from now on, after those that listen already."""
    global _listeners, _has_hooks
    with _lock:
        _listeners = (*_listeners, listener)
        if _has_hooks:
            return
        try:
            import torch.optim  # noqa: F401
        except ModuleNotFoundError:  # NumPy alone: nothing steps
            return
        # torch breaks the graph of a compiled step in any case, right after these hooks.
        _has_hooks = on_steps(unseen(_before, breaks=True), unseen(_after, breaks=True))


def leave(listener: Listener) -> None:
    """Stop notifying *listener*."""
    global _listeners
    with _lock:
        _listeners = tuple(one for one in _listeners if one is not listener)


def after_closure(
    args: tuple[Any, ...], kwargs: dict[str, Any], then: Callable[[], object]
) -> Call | None:
    """Return the arguments of a step with a closure that calls *then* after its first run.

    Returns None if the step has no closure.
    """
    is_positional = len(args) > 1  # args[0] is the optimizer
    closure = args[1] if is_positional else kwargs.get("closure")
    if not callable(closure):
        return None
    is_first = True

    @functools.wraps(closure)
    def closure_then() -> Any:
        nonlocal is_first
        result = closure()
        if is_first:
            is_first = False
            then()
        return result

    if is_positional:
        return (args[0], closure_then, *args[2:]), kwargs
    return args, {**kwargs, "closure": closure_then}


def _before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    for listener in _listeners:
        listener.before_step(optimizer)
    ready = functools.partial(_ready, optimizer)
    call = after_closure(args, kwargs, ready)
    if call is None:
        ready()
    return call


def _ready(optimizer: Any) -> None:
    notified: tuple[Listener, ...] = ()
    while notified is not _listeners:  # one of them may open a run, which listens too
        now = _listeners
        for listener in now:
            if listener not in notified:
                listener.gradients_ready(optimizer)
        notified = now


def _after(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for listener in _listeners:
        listener.after_step(optimizer)
