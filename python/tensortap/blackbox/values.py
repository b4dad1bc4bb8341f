"""Split a nested value into tensors and a tree that JSON can hold, and join them again.

The tree says what to do with each tensor; it never names code to run.  Classes that are not
Python's own are filled in again from an object of the program: its own batch, its own state.

    None, true, 3, 0.5, "text"     themselves; NaN and Infinity as Python's json writes them
    ["tensor", name]               a tensor in the file; "array", "item": as NumPy has it
    ["list", ...], ["tuple", ...]  ["dict", [key, value], ...]
    ["bytes", base64]              ["complex", real, imaginary]
    ["object", class, [key, value], ...]   a mapping, a named tuple or an object with attributes
    ["own", class]                 not kept
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import base64
import copy
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

Tree = Any  # what json.loads returns
MISSING = object()  # there is no object of the program to fill in


def take_apart(value: Any, name: str, keep: Callable[[str, Any], bool]) -> Tree:
    """Return the tree of a value; pass each tensor to *keep*, which says if it could be kept."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    import torch

    if isinstance(value, torch.Tensor):
        return ["tensor", name] if keep(name, value) else ["own", type(value).__name__]
    if type(value) is dict:
        pairs = enumerate(value.items())
        inner = [
            [
                k if type(k) is str else take_apart(k, f"{name}/key{i}", keep),
                take_apart(v, f"{name}/{_part(k, i)}", keep),
            ]
            for i, (k, v) in pairs
        ]
        return ["dict", *inner]
    if type(value) in (list, tuple, torch.Size):
        kind = "list" if type(value) is list else "tuple"
        return [kind, *(take_apart(v, f"{name}/{i}", keep) for i, v in enumerate(value))]
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    if type(value) is complex:
        return ["complex", value.real, value.imag]
    if (found := _as_tensor(value)) is not None:
        kind = "array" if hasattr(value, "ctypes") else "item"
        return [kind, name] if keep(name, found) else ["own", type(value).__name__]
    fields = _fields(value)
    if not fields:
        return ["own", type(value).__name__]
    return [
        "object",
        type(value).__name__,
        *([k, take_apart(v, f"{name}/{k}", keep)] for k, v in fields.items()),
    ]


def join(tree: Tree, tensors: Mapping[str, Any], own: Any = MISSING) -> Any:
    """Return the value of a tree; *own* is the program's value in the same place.

    Raises:
        ValueError: The tree is damaged, or it needs an object that the program does not have.
    """
    if not isinstance(tree, list):
        return tree
    kind, rest = (tree[0], tree[1:]) if tree else (None, [])
    if kind == "tensor":
        return tensors[rest[0]]
    if kind in ("array", "item"):
        array = tensors[rest[0]].numpy().copy()
        return array if kind == "array" else array[()]
    if kind in ("list", "tuple"):
        owned = own if isinstance(own, (list, tuple)) and len(own) == len(rest) else None
        inner = [join(t, tensors, owned[i] if owned else MISSING) for i, t in enumerate(rest)]
        return inner if kind == "list" else tuple(inner)
    if kind == "dict":
        held: Mapping[Any, Any] = own if isinstance(own, Mapping) else {}
        keys = [join(key, tensors) for key, _ in rest]
        return {
            key: join(t, tensors, held.get(key, MISSING))
            for key, (_, t) in zip(keys, rest, strict=True)
        }
    if kind == "bytes":
        return base64.b64decode(rest[0], validate=True)
    if kind == "complex":
        return complex(*rest)
    if kind == "own":
        if own is MISSING:
            raise ValueError(f"a {rest[0]} was not kept, and the program has none in its place")
        return own
    if kind == "object":
        return _fill(rest[0], rest[1:], tensors, own)
    raise ValueError(f"a value of the unknown kind {kind!r}")


def _part(key: Any, index: int) -> str:
    return str(key) if isinstance(key, (str, int)) else f"value{index}"


def _as_tensor(value: Any) -> Any:
    """Return a NumPy array or scalar as a tensor; None: it is none, or torch has no such type."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    import torch

    try:
        return torch.from_numpy(numpy.ascontiguousarray(value).reshape(numpy.shape(value)))
    except (TypeError, ValueError):
        return None


def _fields(value: Any) -> dict[str, Any]:
    """Return what an object holds by name; {}: nothing that could be filled in again."""
    if isinstance(value, MutableMapping):
        fields = dict(value.items())
    elif isinstance(value, tuple):
        fields = dict(zip(getattr(value, "_fields", ()), value, strict=False))
    else:
        fields = dict(getattr(value, "__dict__", {}))
    return {k: v for k, v in fields.items() if isinstance(k, str)}


def _fill(name: str, pairs: list[Any], tensors: Mapping[str, Any], own: Any) -> Any:
    """Return a copy of the program's own object with the kept contents."""
    if own is MISSING or type(own).__name__ != name:
        there = "nothing" if own is MISSING else f"a {type(own).__name__}"
        raise ValueError(f"a {name} was kept, and the program has {there} in its place")
    held = _fields(own)
    values = {key: join(t, tensors, held.get(key, MISSING)) for key, t in pairs}
    if isinstance(own, tuple):
        return type(own)(**values)
    out = copy.copy(own)
    for key, value in values.items():
        if isinstance(own, MutableMapping):
            out[key] = value
        else:
            setattr(out, key, value)
    return out
