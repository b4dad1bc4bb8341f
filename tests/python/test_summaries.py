"""histogram, digest, compare, sample and attention from Python, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from layouts import DTYPES, LAYOUTS, SHAPES, random_array

import tensortap as tt
from tensortap import _core

# ---- histogram -------------------------------------------------------------------


def test_a_histogram_puts_every_finite_element_into_the_bin_that_holds_it() -> None:
    x = random_array("float32", (4000,), 5, specials=True)
    h = tt.histogram(x)
    finite = x[np.isfinite(x)].astype(np.float64)
    assert (h.count, h.nan) == (x.size, np.isnan(x).sum())
    assert (h.posinf, h.neginf) == (np.isposinf(x).sum(), np.isneginf(x).sum())
    assert h.zeros == (x == 0).sum()
    assert sum(h.counts) == finite.size
    for (low, high), count in zip(h.edges, h.counts, strict=True):
        if low == high == 0:
            inside = finite == 0
        elif low >= 0:
            inside = (finite >= low) & (finite < high) & (finite != 0)
        else:
            inside = (finite > low) & (finite <= high) & (finite != 0)
        assert inside.sum() == count


@given(seed=st.integers(0, 2**32 - 1), q=st.floats(0, 1))
@example(seed=121, q=0.515625)
def test_a_quantile_is_right_to_one_bin(seed: int, q: float) -> None:
    x = np.random.default_rng(seed).normal(size=501) * 10.0 ** (seed % 9 - 4)
    off = abs(tt.histogram(x).quantile(q) - np.quantile(x, q))
    # Of the two values that it lies between: with different signs, it may itself be nearly zero.
    around = [np.quantile(x, q, method=side) for side in ("lower", "higher")]
    assert off <= 0.25 * np.abs(around).max()


def test_the_sum_of_histograms_is_that_of_all_elements() -> None:
    x = random_array("float64", (1000,), 1, specials=True)
    assert tt.histogram(x[:300]) + tt.histogram(x[300:]) == tt.histogram(x)
    assert tt.histogram(x[:300]) != tt.histogram(x)


def test_an_empty_histogram_has_no_quantile() -> None:
    h = tt.histogram(np.zeros(0))
    assert (h.count, h.counts, h.edges) == (0, [], [])
    assert math.isnan(h.quantile(0.5))
    assert "count=0" in repr(h)


# ---- digest ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_digest_does_not_depend_on_the_layout(dtype: str) -> None:
    for seed, shape in enumerate(SHAPES):
        a = random_array(dtype, shape, seed, specials=True)
        digests = {tt.digest(layout(a)).hex() for layout in LAYOUTS.values()}
        assert len(digests) == 1


def test_a_digest_depends_on_shape_type_and_every_element() -> None:
    a = np.arange(12, dtype=np.int32)
    others = [a.reshape(3, 4), a.reshape(4, 3), a.view(np.uint32), a.astype(np.int64), a[::-1]]
    for i in range(12):
        b = a.copy()
        b[i] ^= 1
        others.append(b)
    assert len({tt.digest(x) for x in [a, *others]}) == len(others) + 1


def test_swapped_bytes_have_the_same_digest() -> None:
    a = np.arange(12.0)
    assert tt.digest(a.astype(">f8")) == tt.digest(a)


# ---- compare ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("equal_nan", [False, True])
def test_allclose_and_the_largest_difference_are_numpys(dtype: str, equal_nan: bool) -> None:
    for seed in range(12):
        a = random_array(dtype, (9, 31), seed, specials=seed % 3 == 0)
        rng = np.random.default_rng(seed)
        with np.errstate(invalid="ignore", over="ignore"):
            b = (a * (1 + rng.integers(0, 2, a.shape) * 10.0 ** -(seed % 8))).astype(a.dtype)
        wide = np.complex128 if dtype == "complex64" else np.float64
        x, y = a.astype(wide), b.astype(wide)
        c = tt.compare(a, b.T.copy().T, rtol=1e-3, atol=1e-6, equal_nan=equal_nan)
        assert c.allclose == np.allclose(x, y, rtol=1e-3, atol=1e-6, equal_nan=equal_nan)
        both = np.isnan(x) & np.isnan(y)
        differ = (x != y) & ~(both & equal_nan)
        assert c.differing == differ.sum()
        assert c.equal == (not differ.any())
        with np.errstate(invalid="ignore"):
            off = np.where(np.isfinite(x) & np.isfinite(y), np.abs(x - y), 0)
        if (differ & (np.isnan(x) | np.isnan(y))).any():
            assert np.isnan(c.max_abs)
            assert np.isnan(c.max_rel)
        elif np.isinf(c.max_abs):
            assert (np.isinf(x) != np.isinf(y)).any()
        else:
            assert c.max_abs == pytest.approx(off.max(), rel=1e-12)
        if c.argmax is not None and np.isfinite(c.max_abs):
            assert off[c.argmax] == pytest.approx(c.max_abs, rel=1e-12)


def test_argmax_is_an_index_of_the_tensor() -> None:
    a = np.zeros((3, 4, 5))
    b = a.copy()
    b[2, 1, 3] = 7
    c = tt.compare(a, b)
    assert (c.argmax, c.max_abs, c.differing, c.count) == ((2, 1, 3), 7.0, 1, 60)
    assert tt.compare(a, a).argmax is None
    assert tt.compare(np.zeros(()), np.ones(())).argmax == ()


def test_ulps_count_representable_numbers() -> None:
    a = np.ones(4, np.float32)
    b = a.copy()
    b[1] = np.nextafter(b[1], np.float32(2))
    for _ in range(5):
        b[2] = np.nextafter(b[2], np.float32(0))
    c = tt.compare(a, b, ulp=True)
    assert c.ulp_max == 5
    assert c.ulp_hist is not None
    assert [(i, n) for i, n in enumerate(c.ulp_hist) if n] == [(0, 2), (1, 1), (3, 1)]
    assert tt.compare(a, b).ulp_hist is None
    assert tt.compare(a, b.astype(np.float64)).ulp_max is None


def test_the_text_of_a_comparison_says_where() -> None:
    a = np.array([1.0, 2.0])
    assert repr(tt.compare(a, a)) == "Compare(equal=True, count=2)"
    text = repr(tt.compare(a, np.array([1.0, 2.5])))
    assert "differing=1 of 2" in text
    assert "max_abs=0.5 at (1,)" in text
    assert "max_abs=nan at (0,)" in repr(tt.compare(np.array([np.nan, 2.0]), a))


# ---- sample ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_small_tensor_is_sampled_whole(dtype: str) -> None:
    a = random_array(dtype, (3, 4), 2, specials=False)
    sample = _core.sample(a.T.copy().T)
    (table,) = sample.slices
    assert (table.label, table.rows, table.cols) == ("", [0, 1, 2], [0, 1, 2, 3])
    want = a.astype(np.float64).tolist() if a.dtype.kind in "fV" else a.tolist()
    assert table.data == want
    assert (sample.partial, sample.shape, sample.dtype) == (False, (3, 4), dtype)


def test_a_large_tensor_shows_first_and_last_and_says_it_is_partial() -> None:
    a = np.arange(2 * 3 * 100 * 50).reshape(2, 3, 100, 50)
    sample = _core.sample(a, max_matrix=4, max_slices=3)
    assert sample.partial
    for table in sample.slices:
        i, j = (int(x) for x in table.label.strip("[]").split(","))
        for r, row in zip(table.rows, table.data, strict=True):
            assert row == [a[i, j, r, c] for c in table.cols]
        assert (table.rows[0], table.rows[-1], table.cols[-1]) == (0, 99, 49)
    assert sample.as_dict()["slices"][0]["label"] == sample.slices[0].label


# ---- attention -------------------------------------------------------------------


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("masked", [None, "bool", "float"])
def test_attention_matches_a_softmax_by_numpy(is_causal: bool, masked: str | None) -> None:
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 4, 9, 16)), rng.normal(size=(2, 2, 11, 16))
    logits = q @ np.repeat(k, 2, axis=1).swapaxes(-1, -2) * 0.3
    mask = None
    if masked == "bool":
        mask = rng.random((9, 11)) > 0.3
        mask[:, 0] = True
        logits = np.where(mask, logits, -np.inf)
    elif masked == "float":
        mask = rng.normal(size=(4, 1, 11))
        logits = logits + mask
    if is_causal:
        logits = np.where(np.tri(9, 11) > 0, logits, -np.inf)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    a = _core.attention(q, k, scale=0.3, is_causal=is_causal, mask=mask)
    assert a.entropy.shape == a.shape == (2, 4, 9)
    np.testing.assert_allclose(a.entropy, entropy, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(a.max_logit, logits.max(-1), rtol=1e-5)
    np.testing.assert_allclose(a.sink, p[..., 0], rtol=1e-5, atol=1e-7)
    assert repr(a).startswith("Attention(float32[2, 4, 9], entropy=")
    assert list(a.as_dict()) == ["shape", "entropy", "max_logit", "sink"]


def test_heads_without_a_dimension_attend_alike_to_every_key() -> None:
    """The scores are sums of nothing, yet there is an answer for each of 5000 queries."""
    q, k = np.zeros((2, 5000, 0), np.float32), np.zeros((2, 7, 0), np.float32)
    a = _core.attention(q, k, scale=1.0)
    assert a.entropy.shape == (2, 5000)
    np.testing.assert_allclose(a.entropy, np.log(7), rtol=1e-6)


def test_attention_of_nothing_is_empty() -> None:
    a = _core.attention(np.zeros((2, 0, 8)), np.zeros((2, 3, 8)))
    assert a.entropy.shape == (2, 0)
