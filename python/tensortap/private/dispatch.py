"""Leave the modes that torch calls for every operator.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tensortap.private.capability import Capability, expect


def _try_modes() -> None:
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    expect(isinstance(torch._C._len_torch_dispatch_stack(), int), "modes are not counted")
    expect(callable(_disable_current_modes), "modes cannot be left")


MODES = Capability(
    "make copies and control bytes outside of the program's dispatch modes",
    "the program's dispatch modes see operators of tensortap",
    _try_modes,
)


def without_modes() -> AbstractContextManager[Any]:
    """Return a context in which no dispatch mode of the program is active."""
    import torch

    if not MODES.works() or not torch._C._len_torch_dispatch_stack():
        return nullcontext()
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()
