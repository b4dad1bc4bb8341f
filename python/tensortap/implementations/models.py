"""Compare two models in one process, by exact values.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import inspect
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from tensortap.implementations.comparison import read_map
from tensortap.implementations.onnx_graph import OnnxModel
from tensortap.implementations.sites import Tap
from tensortap.implementations.tokens import shared, tokens_of
from tensortap.implementations.verdict import compare_sites
from tensortap.implementations.weights import weights_of
from tensortap.models.modules import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tensortap.implementations.comparison import Comparison
    from tensortap.implementations.sites import Site
    from tensortap.implementations.tokens import Key, Tokens


FIRST, SECOND = "first", "second"
#: What can be compared: a module, an exported program, a graph of ONNX, or the file of one.
Model = torch.nn.Module | torch.export.ExportedProgram | str | os.PathLike[str] | Any


def compare_models(
    a: Model,
    b: Model,
    inputs: Any,
    inputs_b: Any = None,
    *,
    map: str | Path | dict[str, str] | None = None,
) -> Comparison:
    """Run two implementations of a model on the same inputs and name the layer where they part.

    Both run once, in evaluation mode and without gradients; their modes and the random numbers
    are as before afterwards.  Nothing has to be named alike: parameters are paired by their
    content, modules by their parameters, the rest by position and value.

    Args:
        a, b: The two models: modules, programs of `torch.export`, graphs of ONNX (run by ONNX
            Runtime), or the file of one (`.pt2`, `.onnx`).
        inputs: A tensor, a tuple of arguments or a dict of keyword arguments.
        inputs_b: Those of the second model if it takes others (packed, padded); tokens are then
            paired by their ids.
        map: Pairs of names that are known better, as a dict or a file that `to_map` wrote.

    Returns:
        A `Comparison`: print it, or look at `verdict` and `first`.

    Raises:
        ValueError: A model does not take the inputs, or the map names a module that is not there.

    Example:
        >>> import torch, tensortap as tt
        >>> _ = torch.manual_seed(0)
        >>> a, b = (torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in "ab")
        >>> _ = b.load_state_dict(a.state_dict())
        >>> b[1].approximate = "tanh"
        >>> first = tt.compare_models(a, b, torch.randn(16, 8)).first
        >>> first.a, first.hints
        ('1', ('its input agrees (0.0e+00)', 'look at the variant of the activation'))
    """
    corrections = read_map(map)
    first, second = (_implementation(model, which) for model, which in ((a, FIRST), (b, SECOND)))
    _check_names(first, corrections.keys(), FIRST)
    _check_names(second, corrections.values(), SECOND)
    with torch.no_grad(), _all_modules_called(), torch.random.fork_rng():
        state = torch.get_rng_state()
        sites_a, tokens_a = _run(first, inputs, FIRST)
        torch.set_rng_state(state)
        sites_b, tokens_b = _run(second, inputs if inputs_b is None else inputs_b, SECOND)
    count, places = _align(sites_a, tokens_a, sites_b, tokens_b)
    result = compare_sites(
        sites_a, sites_b, first.weights, second.weights, corrections if count else None, places
    )
    result.tokens = count
    result.notes += ["no token is in both inputs"] if count == 0 else []
    return result


def _implementation(model: Model, which: str) -> Module | OnnxModel:
    """Return a model as something that can be run and hands out sites."""
    if isinstance(model, torch.nn.Module):
        return Module(model)
    if isinstance(model, (str, os.PathLike)):
        if not os.path.isfile(model):
            path = os.fspath(model)
            raise ValueError(f"the {which} model is {path!r}, and there is no such file")
        if os.fspath(model).endswith(".pt2"):
            model = _loaded(model, which)
    if isinstance(model, torch.export.ExportedProgram):
        return Module(torch.export.unflatten(model), list(model.graph_signature.user_inputs))
    is_onnx = hasattr(model, "graph") or hasattr(model, "model_proto")
    if is_onnx or (isinstance(model, (str, os.PathLike)) and os.fspath(model).endswith(".onnx")):
        return OnnxModel(model)
    raise TypeError(
        f"the {which} model must be a module, a program of torch.export, a graph of ONNX, or a "
        f"file .pt2 or .onnx, not {_named(model)}"
    )


def _named(model: object) -> str:
    return str(model) if isinstance(model, (str, os.PathLike)) else type(model).__name__


def _loaded(path: Any, which: str) -> torch.export.ExportedProgram:
    try:
        return torch.export.load(path)
    except Exception as error:
        raise ValueError(
            f"the {which} model, {os.fspath(path)}, is no program that torch.export.save wrote "
            f"({str(error).splitlines()[0]}). A package of AOTInductor hands out its outputs only: "
            "make a run of them with tt.record_arrays"
        ) from None


class Module:
    """A module of torch as an implementation of a model.

    Args:
        module: The module.
        arguments: Names of what it is called with, if its signature does not say.
    """

    def __init__(self, module: torch.nn.Module, arguments: list[str] | None = None) -> None:
        self._module, self._arguments = module, arguments
        self.weights = weights_of(module)

    @property
    def names(self) -> set[str]:
        """The paths of its modules."""
        return {name for name, _ in self._module.named_modules()}

    def run(self, inputs: Any) -> tuple[list[Site], Tokens | None]:
        """Run it once; return its sites and which tokens it was given."""
        is_plain = not isinstance(inputs, (dict, tuple, list))
        args = (inputs,) if is_plain else () if isinstance(inputs, dict) else tuple(inputs)
        kwargs = inputs if isinstance(inputs, dict) else {}
        if self._arguments is None:
            named = inspect.signature(self._module.forward).bind(*args, **kwargs).arguments
        else:  # it takes them in the order in which it was exported
            named = dict(zip(self._arguments, args, strict=False))
        tokens = tokens_of({**named, **kwargs})
        tap = Tap(self._module, tokens)
        try:
            with _in_evaluation(self._module):
                self._module(*args, **kwargs)
        finally:
            tap.close()
        return tap.sites, tokens


def _check_names(model: Module | OnnxModel, names: Any, which: str) -> None:
    known = {name or ROOT for name in model.names}
    for name in names:
        if name not in known:
            raise ValueError(f"map names {name!r}, which is no module of the {which} model")


@contextmanager
def _in_evaluation(model: torch.nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, is_training in modes:
            module.training = is_training


@contextmanager
def _all_modules_called() -> Iterator[None]:
    """Switch off the path of nn.TransformerEncoderLayer on which it calls none of its modules."""
    was_on = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_on)


def _run(model: Module | OnnxModel, inputs: Any, which: str) -> tuple[list[Site], Tokens | None]:
    try:
        return model.run(inputs)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"the {which} model does not take these inputs: {error}") from error


def _align(
    sites_a: list[Site], tokens_a: Tokens | None, sites_b: list[Site], tokens_b: Tokens | None
) -> tuple[int, list[Key] | None]:
    """Keep the rows of the tokens that both have, in the same order; return how many, and which."""
    if tokens_a is None or tokens_b is None:
        return max((len(site.parts[0]) for site in sites_a if site.parts), default=0), None
    rows_a, rows_b = shared(tokens_a, tokens_b)
    for site in sites_a:
        site.keep(rows_a)
    for site in sites_b:
        site.keep(rows_b)
    return len(rows_a), [tokens_a.sequences[row] or (0, 0) for row in rows_a]
