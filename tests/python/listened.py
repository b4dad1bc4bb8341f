"""Small models, and consumers that listen to them, for the tests of the module source."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tensortap._core import ModuleConsumer  # noqa: E402

SLOT = "_compiled_call_impl"
X = torch.ones(3, 4)


def mlp() -> nn.Sequential:
    """Give a model of three modules."""
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def listen(model: nn.Module, into: list[Any], **options: Any) -> ModuleConsumer:
    """Listen to every module; calls go into the list."""
    consumer = ModuleConsumer(after=into.append, **options)
    for name, module in model.named_modules():
        consumer.add(module, name or "(root)")
    return consumer


class Failing(nn.Module):
    """Raises."""

    def forward(self, x: Any) -> Any:
        """Raise."""
        raise KeyError("mine")


def replicated(model: nn.Module, factor: float) -> nn.Module:
    """Make a replica as torch.nn.parallel.replicate does, with parameters of its own."""
    replica: nn.Module = model._replicate_for_data_parallel()
    for key, value in model._parameters.items():
        setattr(replica, key, value.detach() * factor)
    for key, child in model._modules.items():
        replica._modules[key] = replicated(child, factor)
    return replica
