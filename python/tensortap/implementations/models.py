"""Compare two models in one process, by exact values.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from tensortap.implementations.comparison import read_map
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
    from tensortap.implementations.tokens import Tokens


def compare_models(
    a: torch.nn.Module,
    b: torch.nn.Module,
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
        a, b: The two models.
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
    _check_names(a, corrections.keys(), "first")
    _check_names(b, corrections.values(), "second")
    weights_a, weights_b = weights_of(a), weights_of(b)
    with torch.no_grad(), _in_evaluation(a, b), _all_modules_called(), torch.random.fork_rng():
        state = torch.get_rng_state()
        sites_a, tokens_a = _run(a, inputs, "first")
        torch.set_rng_state(state)
        sites_b, tokens_b = _run(b, inputs if inputs_b is None else inputs_b, "second")
    count = _align(sites_a, tokens_a, sites_b, tokens_b)
    result = compare_sites(sites_a, sites_b, weights_a, weights_b, corrections if count else None)
    result.tokens = count
    result.notes = ["no token is in both inputs"] if count == 0 else []
    return result


def _check_names(model: torch.nn.Module, names: Any, which: str) -> None:
    known = {name or ROOT for name, _ in model.named_modules()}
    for name in names:
        if name not in known:
            raise ValueError(f"map names {name!r}, which is no module of the {which} model")


@contextmanager
def _in_evaluation(*models: torch.nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for model in models for module in model.modules()]
    try:
        for model in models:
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


def _run(model: torch.nn.Module, inputs: Any, which: str) -> tuple[list[Site], Tokens | None]:
    is_plain = not isinstance(inputs, (dict, tuple, list))
    args = (inputs,) if is_plain else () if isinstance(inputs, dict) else tuple(inputs)
    kwargs = inputs if isinstance(inputs, dict) else {}
    try:
        bound = inspect.signature(model.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(f"the {which} model does not take these inputs: {error}") from None
    named = {**bound.arguments, **kwargs}
    tokens = tokens_of(named)
    tap = Tap(model, tokens)
    try:
        model(*args, **kwargs)
    except Exception as error:
        raise ValueError(f"the {which} model does not take these inputs: {error}") from error
    finally:
        tap.close()
    return tap.sites, tokens


def _align(
    sites_a: list[Site], tokens_a: Tokens | None, sites_b: list[Site], tokens_b: Tokens | None
) -> int:
    """Keep the rows of the tokens that both have, in the same order; return how many."""
    if tokens_a is None or tokens_b is None:
        return max((len(site.parts[0]) for site in sites_a if site.parts), default=0)
    rows_a, rows_b = shared(tokens_a, tokens_b)
    for site in sites_a:
        site.keep(rows_a)
    for site in sites_b:
        site.keep(rows_b)
    return len(rows_a)
