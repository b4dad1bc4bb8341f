"""What is here only because tensortracer has it; its programs run with a changed import.

Two forms of callbacks, told apart by the number of their parameters, and two ways to trace a model
without a block.  model_tracer.py imports this file.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import torch

if TYPE_CHECKING:
    from tensortap.trace.model_tracer import ModelTracer

LISTS = 4  # parameters: name, values, iterations, ranks


def count_parameters(callback: Callable[..., Any]) -> int:
    """Count the arguments that it takes: 2 is the dataclass form, 3 and 4 the lists."""
    try:
        kinds = [one.kind for one in inspect.signature(callback).parameters.values()]
    except (TypeError, ValueError):
        return LISTS
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    is_open = inspect.Parameter.VAR_POSITIONAL in kinds
    count = LISTS if is_open else sum(kind in positional for kind in kinds)
    return min(max(count, 2), LISTS)


def trace_model(
    model: torch.nn.Module, variables: Any, *args: Any, **kwargs: Any
) -> tuple[Any, ModelTracer]:
    """Call a model once, and trace it.

    Args:
        model: The model.
        variables: As for `ModelTracer`.
        *args: Arguments of the model.
        **kwargs: Arguments of the model.

    Returns:
        The output of the model, and the tracer with the results.

    Example:
        >>> import torch
        >>> from tensortap.trace import trace_model
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 1))
        >>> output, tracer = trace_model(model, "0", torch.ones(1, 2))
        >>> bool((tracer.results["0"].values[0] == output).all())
        True
    """
    from tensortap.trace.model_tracer import ModelTracer

    with ModelTracer(model, variables) as tracer:
        output = model(*args, **kwargs)
    return output, tracer


class TracedModel(torch.nn.Module):
    """A model that is traced whenever it is called; `close()` gathers the rest.

    Args:
        model: The model.
        variables: As for `ModelTracer`.
        **options: As for `ModelTracer`.

    Example:
        >>> import torch
        >>> from tensortap.trace import TracedModel
        >>> traced = TracedModel(torch.nn.Sequential(torch.nn.Linear(2, 1)), "0")
        >>> _ = traced(torch.ones(1, 2))
        >>> traced.close()
    """

    def __init__(self, model: torch.nn.Module, variables: Any, **options: Any) -> None:
        """Accept the arguments of ModelTracer; tracing begins with the first call."""
        from tensortap.trace.model_tracer import ModelTracer

        super().__init__()
        self.model = model
        self.tracer = ModelTracer(model, variables, **options)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        if self.tracer._engine is None:
            self.tracer.__enter__()
        return self.model(*args, **kwargs)

    def close(self) -> None:
        """End the trace; twice is harmless."""
        self.tracer.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.tracer.__exit__(kind, error, trace)
