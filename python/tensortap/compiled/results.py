"""The tensors in what a module returns: find them, and make them from what a probe has copied.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

MOST_DEEP, MOST_TENSORS = 8, 256  # as tensor/walk.h


def find_tensors(value: Any, path: str, depth: int, found: list[tuple[str, Any]]) -> None:
    """List the tensors in what a module returns, as tensor/walk.c finds them.

    Dynamo traces this function.
    """
    import torch

    if isinstance(value, torch.Tensor):
        if len(found) < MOST_TENSORS:
            found.append((path, value))
    elif depth == MOST_DEEP:
        return
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            find_tensors(item, f"{path}.{i}", depth + 1, found)
    elif isinstance(value, dict):
        for key, item in value.items():
            find_tensors(item, f"{path}.{key}", depth + 1, found)
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        from dataclasses import fields  # it takes milliseconds to import

        for field in fields(value):
            find_tensors(getattr(value, field.name, None), f"{path}.{field.name}", depth + 1, found)


def make_tensor(data: bytearray, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return a tensor with these elements, which a probe has copied."""
    import torch

    kind = getattr(torch, dtype)
    empty = torch.empty(0, dtype=kind)
    return (torch.frombuffer(data, dtype=kind) if data else empty).reshape(shape)
