"""Keep torch.compile away from our hooks that torch calls.

Dynamo traces every hook it meets, and compiles every Python frame that runs below a
compiled one.  Ours would break its graphs or make it compile again.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def unseen(hook: Callable[..., Any], *, is_traced: bool = True) -> Callable[..., Any]:
    """Return *hook* so that it is never compiled, and does nothing while Dynamo traces it.

    Args:
        hook: The function to wrap.
        is_traced: Whether Dynamo can trace it. It cannot trace what only C calls.
    """
    try:
        from torch._C._dynamo import eval_frame
        from torch.compiler import is_compiling
    except ImportError:  # an older torch
        return hook
    set_eval_frame = eval_frame.set_eval_frame

    def wrapper(*args: Any) -> Any:
        if (
            is_traced and is_compiling()
        ):  # Dynamo reads this as a constant: nothing is left in the graph
            return None
        callback = set_eval_frame(None)
        try:
            return hook(*args)
        finally:
            set_eval_frame(callback)

    # Dynamo would compile the wrapper as if is_compiling() were always true.
    if hasattr(eval_frame, "skip_code"):  # up to torch 2.5
        eval_frame.skip_code(wrapper.__code__)
    else:
        skip = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(
            wrapper.__code__, eval_frame._FrameExecStrategy(skip, skip)
        )
    return wrapper
