"""Keep torch.compile away from our hooks that torch calls.

Dynamo traces every hook it meets, and compiles every Python frame that runs below a
compiled one.  Ours would break its graphs or make it compile again.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensortap import _core

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


def skip(code: CodeType, inside: str) -> None:
    """Never compile the frames of *code*; *inside*: what to do with the frames that they call."""
    from torch._C._dynamo import eval_frame

    if hasattr(eval_frame, "skip_code"):  # up to torch 2.5
        eval_frame.skip_code(code)
    else:
        action = eval_frame._FrameAction
        eval_frame.set_code_exec_strategy(
            code, eval_frame._FrameExecStrategy(action.SKIP, getattr(action, inside))
        )


def unseen(
    hook: Callable[..., Any], *, is_traced: bool = True, breaks: bool = False
) -> Callable[..., Any]:
    """Return *hook* so that it is never compiled, and does nothing while Dynamo traces it.

    Args:
        hook: The function to wrap.
        is_traced: Whether it is to do nothing while anything is compiled.
        breaks: Have Dynamo break its graph there and call the hook, instead of nothing.
    """
    try:
        from torch._C._dynamo import eval_frame
        from torch.compiler import is_compiling
    except ImportError:  # an older torch
        return hook
    set_eval_frame = eval_frame.set_eval_frame

    def wrapper(*args: Any) -> Any:
        if is_traced and is_compiling():
            return None
        callback = set_eval_frame(None)
        try:
            return hook(*args)
        finally:
            set_eval_frame(callback)

    skip(wrapper.__code__, "SKIP")
    return hidden(wrapper, _break if breaks else _nothing)


def hidden(function: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    """Return an object that calls *function*, and in whose place Dynamo traces *traced*."""
    return _core._hidden(function, traced, _call_traced)  # type: ignore[no-any-return]


def _call_traced(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand for the call of such an object where Dynamo traces it."""
    return self.traced(*args, **kwargs)


def _nothing(*_: object) -> None:
    """Stand for a hook where Dynamo traces it: a call of is_compiling() would mark the frame."""


def _break(*_: object) -> None:
    """Stand for a hook that has to run even if what calls it is compiled."""
    from torch._dynamo import graph_break

    graph_break()
