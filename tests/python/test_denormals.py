"""A thread that flushes denormals to zero gets the same numbers as any other."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import tensortap as tt
from tensortap import _core

torch = pytest.importorskip("torch")


@pytest.fixture
def flushing() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    yield
    torch.set_flush_denormal(False)


def tiny(dtype: torch.dtype) -> torch.Tensor:
    """Make denormals of both signs, from their bits: arithmetic might flush them."""
    bits = {torch.float64: torch.int64, torch.float32: torch.int32}.get(dtype, torch.int16)
    x = torch.arange(1, 101, dtype=bits)
    x[::3] |= torch.iinfo(bits).min
    return x.view(dtype)


TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
NUMBERS = {  # taken before anything is flushed
    dtype: (
        _core.stats(tiny(dtype)).as_dict(),
        _core.histogram(tiny(dtype)).as_dict(),
        _core.compare(tiny(dtype), torch.zeros(100, dtype=dtype)).as_dict(),
    )
    for dtype in TYPES
}


@pytest.mark.parametrize("dtype", TYPES)
def test_summaries_see_denormals_that_torch_flushes(dtype: torch.dtype, flushing: None) -> None:
    x = tiny(dtype)
    stats, hist, compare = NUMBERS[dtype]
    assert _core.stats(x).as_dict() == stats
    assert _core.histogram(x).as_dict() == hist
    assert _core.compare(x, torch.zeros(100, dtype=dtype)).as_dict() == compare
    assert stats["zeros"] == 0
    assert compare["differing"] == 100


SMALL = torch.linspace(-3e-160, 4e-160, 50, dtype=torch.float64)  # squares are denormals


def derived() -> tuple[bytes, str]:
    """Return bits and text: compared as numbers, denormals would all be the same 0."""
    s, hist = _core.stats(SMALL), _core.histogram(tiny(torch.float64))
    numbers = (s.var, s.std, s.l2, s.rms, hist.quantile(0.3))
    return struct.pack("<5d", *numbers), repr(_core.stats(tiny(torch.float64)))


DERIVED = derived()


def test_what_follows_from_the_sums_and_its_text_are_not_flushed(flushing: None) -> None:
    assert derived() == DERIVED
    assert "min=-4.94e-322" in DERIVED[1]


def test_the_threads_own_arithmetic_stays_as_it_was(flushing: None) -> None:
    x = tiny(torch.float32)
    _core.stats(x)
    assert (x * 1.0).count_nonzero() == 0


def test_denormals_come_back_from_a_run(tmp_path: Path, flushing: None) -> None:
    x = tiny(torch.float32)
    with tt.record(tmp_path / "run") as run:
        for _ in range(300):
            run.tensor("x", x)
            run.step()
    [point] = {(s.min, s.max) for s in tt.open(tmp_path / "run").stats("x")}
    assert point == (NUMBERS[torch.float32][0]["min"], NUMBERS[torch.float32][0]["max"])
