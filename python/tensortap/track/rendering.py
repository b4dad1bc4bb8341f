"""Values as text and as plain data.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from typing import Any

MOST_ITEMS = 25
LONGEST = 60
LONGEST_BOX = 100


def value_text(value: object) -> str:
    """Return "value: 113", or for a container its length, and its contents if they are few."""
    if isinstance(value, list | tuple | dict | set | frozenset):
        size = len(value)
        if size > MOST_ITEMS:
            return f"len(value): {size}"
        return f"len(value): {size} value: {_cut(_box(value, 0), LONGEST_BOX)}"
    return f"value: {_short(value)}"


def _cut(text: str, most: int, size: int | None = None) -> str:
    text = " ".join(text.split()) if "\n" in text else text
    if size is None:
        size = len(text)
    return text if len(text) <= most else f"{text[:most]}… (length {size})"


def _short(value: object) -> str:
    if isinstance(value, str | bytes) and len(value) > LONGEST:
        return _cut(repr(value[: LONGEST + 1]), LONGEST, len(value))
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"<int of {value.bit_length()} bits>"
    if _is_module(value):  # its repr is a page, and takes as long
        return f"<{type(value).__name__}>"
    try:
        return _cut(repr(value), LONGEST)
    except Exception:
        return f"<{type(value).__name__}>"


def _box(value: Any, depth: int) -> str:
    """Return a container's items, tensors by shape and type."""
    if depth > 3:
        return "…"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_short(k)}: {_item(v, depth)}" for k, v in value.items()) + "}"
    items = ", ".join(_item(v, depth) for v in value)
    if isinstance(value, list):
        return f"[{items}]"
    if isinstance(value, tuple):
        return f"({items},)" if len(value) == 1 else f"({items})"
    return f"{{{items}}}" if value else "set()"


def _item(value: Any, depth: int) -> str:
    if isinstance(value, list | tuple | dict | set | frozenset):
        return (
            _box(value, depth + 1)
            if len(value) <= MOST_ITEMS
            else f"{type(value).__name__} of {len(value)}"
        )
    if is_tensor(value) or is_array(value):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}[{', '.join(map(str, value.shape))}]"
    return _short(value)


def _is_module(value: object) -> bool:
    return isinstance(value, getattr(sys.modules.get("torch.nn"), "Module", ()))


def is_tensor(value: object) -> bool:
    """Return whether *value* is a torch tensor; torch is not imported for it."""
    return isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ()))


def is_array(value: object) -> bool:
    """Return whether *value* is a NumPy array."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ()))
