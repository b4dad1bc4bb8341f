"""stats() of NumPy arrays of every type and layout, against NumPy and exact sums."""

from __future__ import annotations

import array
import ctypes
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import DTYPES, INTEGERS, LAYOUTS, SHAPES, random_array
from reference import assert_stats_match, expected_stats

from tensortap import _core


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_and_layout_gives_what_numpy_gives(dtype: str, layout: str) -> None:
    for seed, shape in enumerate(SHAPES):
        a = random_array(dtype, shape, seed, specials=seed % 2 == 1)
        s = _core.stats(LAYOUTS[layout](a))
        assert (s.shape, s.dtype) == (shape, dtype)
        assert_stats_match(s, expected_stats(a))


@given(
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(list(LAYOUTS)),
    shape=st.lists(st.integers(0, 9), max_size=5).map(tuple),
    seed=st.integers(0, 2**32 - 1),
    specials=st.booleans(),
)
def test_any_small_array_gives_what_numpy_gives(
    dtype: str, layout: str, shape: tuple[int, ...], seed: int, specials: bool
) -> None:
    a = random_array(dtype, shape, seed, specials)
    assert_stats_match(_core.stats(LAYOUTS[layout](a)), expected_stats(a))


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8", "c8", "c16"]
)
def test_swapped_bytes_change_nothing(dtype: str) -> None:
    a = random_array(np.dtype(dtype).name, (5, 7), 3, specials=True)
    swapped = a.astype(a.dtype.newbyteorder(">"))
    assert swapped.dtype.byteorder == ">"
    assert _core.stats(swapped) == _core.stats(a)


def test_a_field_of_a_structured_array_is_read_where_it_lies() -> None:
    table = np.zeros(50, [("flag", "i1"), ("x", "<f4"), ("y", ">f8")])
    table["x"] = np.arange(50)
    table["y"] = np.arange(50) * 2
    assert _core.stats(table["x"]).sum == 1225.0
    assert _core.stats(table["y"]).sum == 2450.0


def test_an_expanded_array_counts_every_element() -> None:
    a = np.broadcast_to(np.array([1.0, 2.0, np.nan], np.float32), (1000, 3))
    s = _core.stats(a)
    assert (s.count, s.nan, s.sum, s.min, s.max) == (3000, 1000, 3000.0, 1.0, 2.0)


def test_more_than_2_to_the_31_elements_through_an_expanded_array() -> None:
    a = np.broadcast_to(np.array([1, -3], np.int8), (2**31 + 5, 2))
    s = _core.stats(a)
    assert (s.count, s.sum) == (2**32 + 10, -2 * (2**31 + 5))


def test_a_huge_mean_does_not_drown_a_tiny_deviation() -> None:
    rng = np.random.default_rng(0)
    x = (1e8 + rng.normal(size=10_000)).astype(np.float64)
    assert _core.stats(x).std == pytest.approx(x.std(ddof=1), rel=1e-6)


def test_sums_of_integers_beyond_64_bits_are_exact() -> None:
    top = np.full(3, 2**64 - 1, np.uint64)
    s = _core.stats(top)
    assert (s.min, s.max, s.absmax, s.sum) == (2**64 - 1, 2**64 - 1, 2**64 - 1, 3 * (2**64 - 1))
    low = np.full(3, -(2**63), np.int64)
    s = _core.stats(low)
    assert (s.min, s.absmax, s.sum) == (-(2**63), 2**63, -3 * 2**63)


def test_integers_above_2_to_the_53_keep_their_last_digit() -> None:
    s = _core.stats(np.array([2**53 + 1, 5], np.int64))
    assert (s.max, s.sum) == (2**53 + 1, 2**53 + 6)


def far_and_near(kind: str, n: int, dtype: str) -> np.ndarray:
    """Make integers that are near each other, far apart, or first one and then the other."""
    rng = np.random.default_rng(n)
    info = np.iinfo(dtype)
    wild = rng.integers(info.min, info.max, n, dtype, endpoint=True)
    wild[:: max(1, n // 3)] = 0
    tame = rng.integers(0, 50_000, n).astype(dtype)
    if kind == "around zero":
        return tame - tame[0] if info.min < 0 else tame
    if kind == "around 2^62":
        return tame + 2**62
    if kind == "at the ends":  # neighbours, if one forgets that 2^64 is not 0
        ends = np.array([info.min, info.max], dtype)
        return rng.choice(ends, n) ^ (tame & 1)
    if kind == "at the bottom":
        return tame + info.min
    if kind == "at the top":
        return info.max - tame
    if kind == "52 bits":
        return (rng.integers(-(2**51), 2**51, n) + (0 if info.min < 0 else 2**51)).astype(dtype)
    if kind == "first tame, then wild, then tame":
        return np.concatenate([tame, wild, tame, tame])
    if kind == "growing":  # every block has a new largest
        return np.sort(wild)
    if kind == "falling":
        return np.sort(wild)[::-1].copy()
    if kind == "alike but for their last bits":
        return (wild & 4095) + np.where(rng.random(n) < 0.5, info.max // 8192 * 4096, 4096).astype(
            dtype
        )
    return wild


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("n", [1, 3, 15, 16, 17, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize(
    "kind",
    [
        "around zero",
        "around 2^62",
        "at the ends",
        "at the bottom",
        "at the top",
        "52 bits",
        "first tame, then wild, then tame",
        "growing",
        "falling",
        "alike but for their last bits",
        "wild",
    ],
)
def test_wide_integers_are_what_exact_arithmetic_says(kind: str, n: int, dtype: str) -> None:
    a = far_and_near(kind, n, dtype)
    x = [int(v) for v in a]
    n = len(x)
    s = _core.stats(a)
    assert (s.min, s.max, s.sum) == (min(x), max(x), sum(x))
    assert (s.count, s.zeros) == (n, x.count(0))
    assert s.l1 == pytest.approx(sum(map(abs, x)), rel=1e-9)
    assert s.l2 == pytest.approx(math.sqrt(sum(v * v for v in x)), rel=1e-9)
    assert s.mean == pytest.approx(sum(x) / n, rel=1e-12)
    if n > 1:
        assert s.var == pytest.approx(
            (n * sum(v * v for v in x) - sum(x) ** 2) / (n * (n - 1)), rel=1e-9
        )


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_an_empty_integer_array_has_no_smallest_element(dtype: str) -> None:
    s = _core.stats(np.zeros((0, 3), dtype))
    assert (s.min, s.max, s.absmax, s.sum, s.count) == (None, None, None, 0, 0)
    assert math.isnan(s.mean)


def test_bools_are_counted_as_0_and_1() -> None:
    s = _core.stats(np.array([True, False, True]))
    assert (s.min, s.max, s.sum, s.zeros, s.dtype) == (0, 1, 2, 1, "bool")
    assert type(s.max) is int


def test_nan_policy_propagate_gives_numpys_nan_and_inf() -> None:
    s = _core.stats(np.array([1.0, np.nan, np.inf]), nan_policy="propagate")
    assert math.isnan(s.mean)
    assert math.isnan(s.max)
    s = _core.stats(np.array([1.0, np.inf]), nan_policy="propagate")
    assert (s.max, s.min, s.sum, s.posinf) == (math.inf, 1.0, math.inf, 1)


@pytest.mark.parametrize(
    "obj",
    [
        np.float32(2.5),
        array.array("d", [2.5]),
        memoryview(array.array("f", [2.5])),
        np.array(2.5),
        np.array([[2.5]]).view(np.matrix),
    ],
)
def test_everything_that_lends_its_memory_is_read(obj: object) -> None:
    assert _core.stats(obj).sum == 2.5


def test_an_array_of_ctypes_is_read_although_it_lends_no_strides() -> None:
    grid = (ctypes.c_int32 * 3 * 2)((1, 2, 3), (4, 5, 6))
    s = _core.stats(grid)
    assert (s.shape, s.dtype, s.sum) == ((2, 3), "int32", 21)
    assert _core.digest(grid) == _core.digest(np.array(grid))


def test_bytes_are_unsigned_integers() -> None:
    s = _core.stats(b"\x00\x01\xff")
    assert (s.dtype, s.max, s.sum) == ("uint8", 255, 256)


class SpeaksDlpack:
    """Something with __dlpack__ and no buffer."""

    def __init__(self, a: np.ndarray) -> None:
        self.a = a

    def __dlpack__(self, **options: object) -> object:
        return self.a.__dlpack__(**options)


def test_an_object_that_speaks_dlpack_is_read() -> None:
    assert _core.stats(SpeaksDlpack(np.arange(12.0).reshape(3, 4).T)).sum == 66.0
