"""Keep torch.compile away from our hooks that torch calls.

Dynamo traces every hook it meets, and compiles every Python frame that runs below a
compiled one.  Ours would break its graphs or make it compile again.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensortap import _core
from tensortap.compiled.dynamo import is_imported, mark_constant
from tensortap.files.imports import when_imported
from tensortap.private.capability import Capability, expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


def _try_eval_frame() -> None:
    from torch._C._dynamo import eval_frame

    def toy() -> None:
        pass

    _set_strategy(toy.__code__, "DEFAULT")
    callback = eval_frame.set_eval_frame(None)
    expect(eval_frame.set_eval_frame(callback) is None, "set_eval_frame returns something else")


HOOKS = Capability(
    "run hooks with Dynamo switched off",
    "torch.compile may compile hooks of tensortap, which takes time",
    _try_eval_frame,
)


def _set_strategy(code: CodeType, inside: str) -> None:
    from torch._C._dynamo import eval_frame

    action = eval_frame._FrameAction
    eval_frame.set_code_exec_strategy(
        code, eval_frame._FrameExecStrategy(action.SKIP, getattr(action, inside))
    )


@HOOKS.guards(otherwise=None)
def skip(code: CodeType, inside: str) -> None:
    """Never compile the frames of *code*; *inside*: what to do with the frames that they call."""
    _set_strategy(code, inside)


@HOOKS.guards(otherwise=None)
def _find_switch() -> Callable[..., Any] | None:
    """Return the function that switches Dynamo off and on in this thread."""
    from torch._C._dynamo import eval_frame

    return eval_frame.set_eval_frame


@HOOKS.guards(otherwise=False)
def _is_compiling() -> bool:
    from torch.compiler import is_compiling

    return is_compiling()


def unseen(
    hook: Callable[..., Any], *, is_traced: bool = True, breaks: bool = False
) -> Callable[..., Any]:
    """Return *hook* so that it is never compiled, and does nothing while Dynamo traces it.

    Args:
        hook: The function to wrap.
        is_traced: Whether it is to do nothing while anything is compiled.
        breaks: Have Dynamo break its graph there and call the hook, instead of nothing.
    """
    switch = _find_switch()

    def wrapper(*args: Any) -> Any:
        if is_traced and _is_compiling():
            return None
        if switch is None or not HOOKS.works():
            return hook(*args)
        try:
            callback = switch(None)
        except Exception as error:
            HOOKS.lose(error)
            return hook(*args)
        try:
            return hook(*args)
        finally:
            switch(callback)

    skip(wrapper.__code__, "SKIP")
    return hidden(wrapper, _break if breaks else _nothing)


def hidden(function: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    """Return an object that calls *function*, and in whose place Dynamo traces *traced*."""
    return _core._hidden(function, traced, _call_traced)  # type: ignore[no-any-return]


def opaque(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* so that Dynamo breaks its graph where it is called, and never compiles it.

    Needs no torch.  If graphs cannot be broken, Dynamo traces a function that returns None.
    """
    never_compile(function)
    return hidden(function, _break)


def never_compile(*functions: Callable[..., Any]) -> None:
    """Keep Dynamo from the frames of these functions, and from all that they call."""
    if not _uncompiled and not is_imported():
        when_imported("torch._dynamo", _skip_uncompiled)
    _uncompiled.extend(function.__code__ for function in functions)
    if is_imported():
        _skip_uncompiled()


_uncompiled: list[CodeType] = []


def _skip_uncompiled() -> None:
    for code in _uncompiled:
        skip(code, "SKIP")


def _call_traced(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand for the call of such an object where Dynamo traces it."""
    return self.traced(*args, **kwargs)


def _nothing(*_: object) -> None:
    """Stand for a hook where Dynamo traces it: a call of is_compiling() would mark the frame."""


def _try_break() -> None:
    import torch._dynamo

    expect(
        torch._dynamo.graph_break is torch._dynamo.decorators.graph_break,
        "graph_break is another function",
    )


BREAKS = Capability(
    "run functions of tensortap between compiled graphs",
    "steps of compiled optimizers and tracked calls inside compiled graphs are not seen",
    _try_break,
)


@mark_constant
def _can_break() -> bool:
    return BREAKS.works()


def _break(*_: object) -> None:
    """Stand for a hook that has to run even if what calls it is compiled."""
    if _can_break():
        from torch._dynamo import graph_break

        graph_break()
