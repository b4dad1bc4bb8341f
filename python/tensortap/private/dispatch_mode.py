"""The class of modes that torch calls for every operator; it imports torch.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any

from tensortap.private.capability import Capability, expect


def _find() -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    expect(isinstance(TorchDispatchMode, type), "TorchDispatchMode is not a class")
    expect(callable(TorchDispatchMode.__enter__), "TorchDispatchMode cannot be entered")
    return TorchDispatchMode


OPERATORS = Capability(
    "log the operators of a block of code",
    "operators are not seen",
    _find,
)


class NoMode:
    """Stands for the class where torch has none: no operator is logged."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


TorchDispatchMode: Any = _find() if OPERATORS.works() else NoMode
