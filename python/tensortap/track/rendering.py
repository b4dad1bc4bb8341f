"""Values as text and as plain data.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from tensortap import _core

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


def extract_tensor_info(data: Any, max_elements: int = MOST_ITEMS) -> Any:
    """Return a value as plain data: few elements as lists, more of them as a summary.

    Args:
        data: A tensor, an array, or containers of them.
        max_elements: Largest number of elements to return as a list.

    Returns:
        Lists, dicts, numbers and text.

    Example:
        >>> import torch
        >>> from tensortap.track import extract_tensor_info
        >>> info = extract_tensor_info({"x": torch.ones(2)})
    """
    if is_tensor(data):
        if data.numel() <= max_elements and data.device.type != "meta":
            return data.tolist()
        info = {"type": "Tensor", "shape": data.shape, "dtype": str(data.dtype)}
        try:
            stats = _core.stats(data.cpu() if data.device.type not in ("cpu", "meta") else data)
        except TypeError:  # meta, sparse: no values to read
            return info
        return {**info, "sum": stats.sum, "mean": stats.mean, "min": stats.min, "max": stats.max}
    if is_array(data):
        if data.size <= max_elements:
            return data.tolist()
        return {"type": "ndarray", "shape": data.shape, "dtype": str(data.dtype)}
    if isinstance(data, list | tuple | set):
        return [extract_tensor_info(item, max_elements) for item in data]
    if isinstance(data, dict):
        return {key: extract_tensor_info(item, max_elements) for key, item in data.items()}
    return data


def is_content_changed(last: object, current: object) -> bool:
    """Return whether two values differ; tensors by shape, type, device and contents.

    Args:
        last: A value.
        current: Another value.

    Returns:
        True if they differ.

    Example:
        >>> import torch
        >>> from tensortap.track import is_content_changed
        >>> is_content_changed(torch.ones(2), torch.zeros(2))
        True
    """
    if last is current and not isinstance(current, list | tuple | dict | set | frozenset):
        return False
    if _core.track_key(last) == _core.track_key(current):
        return False
    if is_tensor(last) or is_array(last) or isinstance(last, list | tuple | dict | set | frozenset):
        return True
    try:
        return not bool(last == current)
    except Exception:
        return True


_counts: dict[tuple[int, int, object], int] = {}


def check_run_count(unique_id: object, max_allow: int, remove_when_exit: bool = True) -> None:
    """Count calls in this thread, and exit the program after the last one that is allowed.

    Args:
        unique_id: What is counted.
        max_allow: Number of calls that are allowed.
        remove_when_exit: Forget the count at the exit, so that it starts again.

    Raises:
        SystemExit: There were more than *max_allow* calls.

    Example:
        >>> from tensortap.track import check_run_count
        >>> check_run_count("loop", 2)
    """
    key = (os.getpid(), threading.get_ident(), unique_id)
    count = _counts[key] = _counts.get(key, 0) + 1
    if count > max_allow:
        if remove_when_exit:
            del _counts[key]
        raise SystemExit(1)
