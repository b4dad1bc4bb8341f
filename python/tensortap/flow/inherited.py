"""What is here only because monitorch has it; its programs run with a changed import.

Names of folders and files, and the arguments that `run` finds or guesses.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

FOLDER = "monitorch_outputs"  # of charts
PREFIX = "tensor_flow"  # of their files

Parameter = inspect.Parameter


def arguments_for(
    fn: Callable[..., Any], scopes: Sequence[Mapping[str, Any]], guess: Guess
) -> tuple[list[Any], dict[str, Any]]:
    """Find a value for each parameter: from the first scope that has it, else default or guess."""
    signature, names = _signature(fn)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        value = next((s[parameter.name] for s in scopes if parameter.name in s), parameter.default)
        if value is Parameter.empty:
            value = guess(parameter.name, _annotation(parameter, names))
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    return positional, named


def _signature(fn: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    """Return the signature of *fn* and the names that its annotations may use."""
    try:
        signature = inspect.signature(fn)
        forward = getattr(fn, "forward", None)
        if callable(forward) and not isinstance(fn, type) and _takes_anything(signature):
            return inspect.signature(forward), _globals_of(forward)  # a module
    except ValueError:
        name = getattr(fn, "__name__", repr(fn))
        raise TypeError(f"run() cannot see the parameters of {name}; call it yourself") from None
    return signature, _globals_of(fn)


def _takes_anything(signature: inspect.Signature) -> bool:
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    return kinds == [Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD]


def _globals_of(fn: Any) -> dict[str, Any]:
    """Return the globals of the function that is called in the end."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = inspect.unwrap(fn)
    if isinstance(fn, type):
        fn = fn.__init__  # type: ignore[misc]
    elif not inspect.isroutine(fn):
        fn = type(fn).__call__
    names: dict[str, Any] = getattr(getattr(fn, "__func__", fn), "__globals__", {})
    return names


def _annotation(parameter: Parameter, names: dict[str, Any]) -> Any:
    """Return the annotation of a parameter, evaluated if it is a string; empty if that fails."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, names)
        except Exception:  # an unknown name may lead to anything
            return Parameter.empty
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        return parts[0] if len(parts) == 1 else Parameter.empty
    return annotation


class Guess:
    """Makes up values from annotation and name, without using the program's random numbers."""

    def __init__(self) -> None:
        """Import nothing yet."""
        self._generator: Any = None

    def __call__(self, name: str, annotation: Any) -> Any:
        """Make up a value for a parameter."""
        plain = {int: 4, float: 0.1, bool: False, str: name}
        if isinstance(annotation, type) and annotation in plain:
            return plain[annotation]
        word = name.lower()
        if not _is_tensor(annotation):
            if "shape" in word or "size" in word:
                return (4, 4)
            if "dim" in word or word.endswith("n"):
                return 4
            if "lr" in word or "rate" in word:
                return 0.01
        return self._random("label" in word or "target" in word)

    def _random(self, is_class: bool) -> Any:
        try:
            import torch
        except ModuleNotFoundError:
            return self._random_array(is_class)
        if self._generator is None:
            self._generator = torch.Generator("cpu")
        if is_class:
            value = torch.randint(0, 2, (8,), generator=self._generator, device="cpu")
        else:
            value = torch.randn(8, 8, generator=self._generator, device="cpu")
        return value.to(torch.empty(0).device)  # where the program's own would be

    def _random_array(self, is_class: bool) -> Any:
        import numpy

        if self._generator is None:
            self._generator = numpy.random.default_rng(0)
        return (
            self._generator.integers(0, 2, 8) if is_class else self._generator.normal(size=(8, 8))
        )


def _is_tensor(annotation: Any) -> bool:
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())
    return isinstance(annotation, type) and issubclass(annotation, tensor)
