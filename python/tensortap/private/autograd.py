"""The engine of autograd: functions that are on the stack while gradients are computed.

C finds them there: python/ext/runs/watch_loss.c and python/ext/operators/line.c.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from tensortap.private.capability import Capability, expect


def _try_backward() -> None:
    import torch

    code = torch.autograd.backward.__code__
    expect(isinstance(code, CodeType), "torch.autograd.backward is not a function")
    expect(code.co_varnames[:1] == ("tensors",), "its first argument is not called tensors")


LOSS = Capability(
    "record the tensor on which backward() was called",
    "the loss and labels are not seen",
    _try_backward,
)

#: The function of torch that runs the engine.
RUN_BACKWARD = "_engine_run_backward"
#: nn.Module's functions that call a module, as they are seen on the stack.
MODULE_CALLS = ("__call__", "_wrapped_call_impl")


def module_call_codes() -> set[CodeType]:
    """Return the code of the functions that call a module."""
    import torch

    found: list[Any] = [getattr(torch.nn.Module, name, None) for name in MODULE_CALLS]
    return {one.__code__ for one in found if hasattr(one, "__code__")}
