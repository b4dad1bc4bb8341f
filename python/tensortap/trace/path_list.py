"""paths(): list what could be traced in a model, with shapes.

    >>> print(tensortap.trace.paths(model, x))
    forward              float32[8, 10]
    forward.x            float32[8, 32]
    layers.0             float32[8, 64]

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch

from tensortap import _core
from tensortap.models import forward
from tensortap.trace.model_tracer import ModelTracer
from tensortap.trace.path_matcher import PathMatcher, known_names

MOST_DEPTH = 4  # of containers
MOST_ITEMS = 8  # of one of them


@dataclass(frozen=True)
class TracePath:
    """One path, and what it led to in the forward that was run.

    Args:
        path: The path.
        kind: Type of the value, or of the elements of a tensor.
        shape: Shape of the tensor, or None.
        count: How many values it had.

    Example:
        >>> from tensortap.trace import TracePath
        >>> TracePath("0", "float32", (1, 1), 1).shape
        (1, 1)
    """

    path: str
    kind: str  # a type's name, or the element type of a tensor
    shape: tuple[int, ...] | None  # of a tensor or array, last seen
    count: int  # values in one forward

    def __str__(self) -> str:
        return f"{self.path}  {self._what()}"

    def _what(self) -> str:
        shape = "" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
        times = f"  x{self.count}" if self.count > 1 else ""
        return f"{self.kind}{shape}{times}"


class PathList(list[TracePath]):
    """The paths of a model, as `paths` returns them; prints as a table.

    Example:
        >>> from tensortap.trace import PathList
        >>> len(PathList())
        0
    """

    def __str__(self) -> str:
        width = max((len(one.path) for one in self), default=0)
        return "\n".join(f"{one.path:<{width}}  {one._what()}" for one in self)

    def __repr__(self) -> str:
        return str(self)


def paths(model: torch.nn.Module, *inputs: Any, **named_inputs: Any) -> PathList:
    """Call a model once and list every path that can be traced, with shapes.

    Args:
        model: The model.
        *inputs: Arguments of the model.
        **named_inputs: Arguments of the model.

    Returns:
        The paths.

    Example:
        >>> import torch
        >>> from tensortap.trace import paths
        >>> found = paths(torch.nn.Sequential(torch.nn.Linear(2, 1)), torch.ones(1, 2))
        >>> "0" in [one.path for one in found]
        True
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    root = PathMatcher(model).root
    found: dict[str, TracePath] = {}

    def note(name: str, value: Any, depth: int = 0) -> None:
        old = found.get(name)
        shape = getattr(value, "shape", None)
        is_array = shape is not None and hasattr(value, "dtype")
        sizes = tuple(shape) if shape is not None and is_array else None
        kind = str(value.dtype).removeprefix("torch.") if is_array else type(value).__name__
        found[name] = TracePath(name, kind, sizes, old.count + 1 if old else 1)
        for key, part in _parts(value) if depth < MOST_DEPTH else []:
            note(f"{name}.{key}", part, depth + 1)

    def note_value(name: str, value: Any, iteration: int) -> None:
        note(name, value)

    held = [name for name, _ in [*root.named_parameters(), *root.named_buffers()]]
    wanted = list(dict.fromkeys([*known_names(root), *held]))
    tracer = ModelTracer(model, wanted, pre_save_callbacks=[note_value], gather=False)
    with forward.unnoticed(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with tracer:
            forward.run(model, inputs, named_inputs, None)
    order = {name: i for i, name in enumerate(wanted)}
    return PathList(sorted(found.values(), key=lambda one: _place(one.path, order)))


def _place(path: str, order: dict[str, int]) -> tuple[int, str]:
    """Sort what lies inside a value behind it."""
    name = path
    while name and name not in order:
        name = name.rpartition(".")[0]
    return order.get(name, len(order)), path


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, (torch.nn.Module, torch.Size)) or hasattr(value, "dtype"):
        return []
    if isinstance(value, (dict, list, tuple)):
        return _core.children(value, limit=MOST_ITEMS) or []
    held = _core.children(value, objects=True) or []
    return [(key, part) for key, part in held if not key.startswith("_")]
