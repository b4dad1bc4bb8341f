"""Values and lines of the tree as text.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Any

from tensortap import _core
from tensortap.track.description import Description, Kind, finite_count

MOST_ITEMS = 25
LONGEST = 60
LONGEST_BOX = 100
DEEPEST = 10  # guides beyond this depth leave no room for the text: the rest is a number

COLORS = _core.mood_codes()
NO_COLORS = dict.fromkeys(COLORS, "")


class Branch(IntEnum):
    """How a line hangs in the tree; tt_branch in include/tensortap_tools.h has the same numbers."""

    CALL = 0  # opens a call
    ENTRY = 1
    LAST = 2


def branch_text(depth: int, branch: int, text: str, *, is_colored: bool) -> str:
    """Return one line of the tree, with its newline."""
    if depth > DEEPEST:
        text = f"+{depth - DEEPEST} {text}"
    line = _core.tree_line(min(max(depth, 0), DEEPEST), branch, text, is_colored)
    return line + "\n"


# ---- tensors


def named_text(
    name: str, line: int, one: Description, value: object, colors: dict[str, str]
) -> str:
    """Return "[Tensor] x@12 → shape=..." or "[Var] n@12 value: 3"."""
    named = f"{colors['type']}{name}{colors['plain']}@{line}"
    if one.has_elements:
        return f"[Tensor] {named} → {tensor_text(one, colors)}"
    return f"[Var] {named} {value_text(value)}"


def any_text(value: object, colors: dict[str, str]) -> str:
    """Return "shape=..." or "value: 3"."""
    one = Description(value)
    return tensor_text(one, colors) if one.has_elements else value_text(value)


def tensor_text(one: Description, colors: dict[str, str]) -> str:
    """Return "shape=... | dtype=... | mean=..."; fields that changed have a colour."""
    is_torch = one.kind == Kind.TENSOR
    if one.shape is None:
        shape = "shape=?"
    elif is_torch:
        shape = f"shape=torch.Size({list(one.shape)})"
    else:
        shape = f"shape={one.shape}"
    fields = [
        ("shape", shape),
        ("dtype", f"dtype={'torch.' if is_torch else ''}{one.dtype or '?'}"),
    ]
    if one.device or "device" in one.changed:
        fields.append(("device", f"device={one.device or 'cpu'}"))
    text = " | ".join(
        f"{colors['remark']}{field}{colors['plain']}" if name in one.changed else field
        for name, field in fields
    )
    return text if one.stats is None else text + _stats_text(one.stats, colors)


def _stats_text(stats: _core.Stats, colors: dict[str, str]) -> str:
    number = _core.number_text
    finite = finite_count(stats)
    if stats.count == 0:
        return " | empty"
    text = ""
    if finite == 1 and stats.count == 1:
        text = f" | value={number(stats.mean.real)}"
    elif finite > 0:
        std = f" std={number(stats.std)}" if finite > 1 else ""
        bounds = f"min={number(stats.min)} max={number(stats.max)}"
        text = f" | mean={number(stats.mean.real)}{std} {bounds}"
    if finite < stats.count:
        text += " |"
        for count, word in ((stats.nan, "NaN"), (stats.posinf, "Inf"), (stats.neginf, "-Inf")):
            if count > 0:
                text += f" {colors['alarm']}{count} {word}{colors['plain']}"
    return text


# ---- anything else


def value_text(value: object) -> str:
    """Return "value: 113", or for a container its length, and its contents if they are few.

    Nothing where a class of the program fails.
    """
    try:
        return _value_text(value)
    except Exception:
        return ""


def _value_text(value: object) -> str:
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
