"""No call keeps memory or references, whether it succeeds or fails."""

from __future__ import annotations

import contextlib
import gc
import pickle
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tensortap as tt
from tensortap import _core

ml_dtypes = pytest.importorskip("ml_dtypes")

# Under the sanitizers Python's own allocator is off, and with it this count.
pytestmark = pytest.mark.skipif(sys.getallocatedblocks() == 0, reason="PYTHONMALLOC=malloc")

CALLS: list[Callable[[object], object]] = [
    _core.stats,
    lambda x: _core.stats(x).as_dict(),
    lambda x: pickle.loads(pickle.dumps(_core.stats(x))),
    lambda x: repr(_core.stats(x, nan_policy="propagate")),
    lambda x: _core.digest(x).as_dict(),
    lambda x: pickle.loads(pickle.dumps(_core.digest(x))),
    lambda x: (_core.histogram(x) + _core.histogram(x)).as_dict(),
    lambda x: _core.histogram(x).quantile(0.5),
    lambda x: _core.compare(x, x, ulp=True).as_dict(),
    lambda x: _core.compare(x, np.zeros(3)),
    lambda x: _core.sample(x).as_dict(),
    lambda x: _core.attention(x, x).as_dict(),
    lambda x: _core.attention(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), mask=x),
    lambda x: str(tt.Shown({"a": [x, x]})),
    lambda x: _core.stats(x, bogus=1),
    lambda x: _core.Digest("00"),
]


def objects() -> list[object]:
    found: list[object] = [
        np.arange(12.0).reshape(1, 3, 4),
        np.zeros((1, 2, 2), ml_dtypes.bfloat16),
        np.zeros((1, 2, 2), ">c16"),
        np.zeros(3, "M8[s]"),
        np.ma.zeros(3),
        b"bytes",
        [1, 2],
    ]
    torch = sys.modules.get("torch")
    if torch is not None:
        plain = torch.ones(1, 2, 2)
        z = torch.ones(1, 2, 2, dtype=torch.complex64)
        found += [plain, torch.nn.Parameter(plain), z.conj(), z.conj().imag]
        found += [
            plain.as_subclass(type("Sub", (torch.Tensor,), {})),
            torch.empty(2, device="meta"),
        ]
        found += [torch.eye(2).to_sparse(), torch._efficientzerotensor(1, 2, 2)]
    return found


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Count what calls leave behind, cycles too, and not what a collection takes away."""
    gc.disable()
    yield
    gc.enable()


def grows(call: Callable[[object], object], x: object) -> bool:
    """Tell whether each of many rounds leaves blocks behind; caches fill up and stop.

    The first rounds say nothing: Python's free lists may serve them.
    """
    for turn in range(20):
        before = sys.getallocatedblocks()
        for _ in range(40):
            with contextlib.suppress(TypeError, ValueError):
                call(x)
        if turn > 4 and sys.getallocatedblocks() - before < 20:
            return False
    return True


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_a_call_keeps_nothing(index: int) -> None:
    for x in objects():
        references = sys.getrefcount(x)
        assert not grows(CALLS[index], x), type(x)
        assert sys.getrefcount(x) == references


def test_a_leak_would_be_seen() -> None:
    kept: list[object] = []
    assert grows(lambda x: kept.append([x]), 1)
