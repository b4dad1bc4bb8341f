"""verify() tells rounding of other compiled code from a change by watching."""

from __future__ import annotations

from typing import Any

import pytest

import tensortap as tt

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from torch import nn  # noqa: E402
from versions import needs_probes  # noqa: E402


def verified(factor: float) -> Any:
    """Verify a model whose compiled code depends on whether the graph contains a probe."""

    def backend(graph: Any, _: Any) -> Any:
        scale = factor if "probe" in str(graph.graph) else 1.0
        return lambda *args: tuple(
            one * scale if isinstance(one, torch.Tensor) else one for one in graph(*args)
        )

    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    call = torch.compile(model, backend=backend)
    return tt.verify(lambda: call(torch.ones(2, 4)).square().sum().backward(), model=model)


def test_a_compiled_model_that_computes_the_same_is_innocent() -> None:
    assert verified(1.0)


@needs_probes
def test_rounding_of_compiled_code_is_told_from_a_change() -> None:
    report = verified(1 + 1e-6)
    assert not report
    assert report.rounds
    assert "by rounding only" in str(report)


@needs_probes
def test_more_than_rounding_is_a_change() -> None:
    report = verified(1.5)
    assert not report
    assert not report.rounds
