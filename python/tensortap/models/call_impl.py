"""Recognise the nn.Module._call_impl that watched modules may be called without.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import CodeType

#: How _call_impl asks if torch.jit.trace is active; the second way is that of torch 2.15.
QUESTIONS = ["torch._C._get_tracing_state()", "torch._C._is_tracing()"]
#: How it goes on: without hooks it calls forward and does nothing else.
CONDITION = (
    "if not (self._backward_hooks or self._backward_pre_hooks"
    " or self._forward_hooks or self._forward_pre_hooks"
    " or _global_backward_pre_hooks or _global_backward_hooks"
    " or _global_forward_hooks or _global_forward_pre_hooks):\n"
    "    return forward_call(*args, **kwargs)"
)
BEGINNINGS = [
    [f"forward_call = self._slow_forward if {question} else self.forward", CONDITION]
    for question in QUESTIONS
]


def known_code() -> CodeType | None:
    """Return the code of nn.Module._call_impl if it begins as we know, else None."""
    import torch

    function = torch.nn.Module._call_impl
    try:
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(function.__code__))).body
    except (OSError, SyntaxError, AttributeError, TypeError, ValueError):  # without source
        return None
    if not isinstance(found, ast.FunctionDef):
        return None
    taken = [one.arg for one in (*found.args.args, found.args.vararg, found.args.kwarg) if one]
    begins = [ast.unparse(statement) for statement in found.body[:2]]
    known = taken == ["self", "args", "kwargs"] and begins in BEGINNINGS
    return function.__code__ if known else None
