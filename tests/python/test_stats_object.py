"""Stats and Digest as objects: text, dict, equality, pickles."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from layouts import DTYPES, random_array

import tensortap as tt

FIELDS = [
    "shape",
    "dtype",
    "count",
    "nan",
    "posinf",
    "neginf",
    "zeros",
    "min",
    "max",
    "absmax",
    "sum",
    "mean",
    "var",
    "std",
    "l1",
    "l2",
    "rms",
]


def test_as_dict_has_every_field_in_order() -> None:
    s = tt.stats(np.arange(6.0).reshape(2, 3))
    assert list(s.as_dict()) == FIELDS
    assert s.as_dict() == {name: getattr(s, name) for name in FIELDS}


def test_the_repr_shows_what_matters_and_nan_only_where_there_is_one() -> None:
    assert repr(tt.stats(np.array([[1, 2], [3, 4]], np.int32))) == (
        "Stats(int32[2, 2], min=1, max=4, mean=2.5, std=1.291)"
    )
    assert "nan=1" in repr(tt.stats(np.array([1.0, np.nan])))
    assert repr(tt.stats(np.zeros((), np.float16))).startswith("Stats(float16[], ")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_a_pickle_is_the_same_stats(dtype: str, policy: str) -> None:
    for shape in [(3, 5), (), (0, 2)]:
        s = tt.stats(random_array(dtype, shape, 1, specials=True), nan_policy=policy)
        assert pickle.loads(pickle.dumps(s)) == s
        assert copy.deepcopy(s) == s


def test_stats_are_equal_if_every_field_is() -> None:
    a = np.array([1.0, np.nan])
    assert tt.stats(a) == tt.stats(a.copy())
    assert tt.stats(a) != tt.stats(a[:1])
    assert tt.stats(a) != tt.stats(a.reshape(1, 2))
    assert tt.stats(a) != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(tt.stats(a))


def test_fields_cannot_be_changed() -> None:
    s = tt.stats(np.arange(3.0))
    with pytest.raises(AttributeError):
        s.mean = 3.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        tt.Stats.mean = 3.0  # type: ignore[misc,assignment]


def test_a_stats_outlives_its_tensor() -> None:
    s = tt.stats(np.full((4, 5), 3.0))
    assert (s.mean, s.shape) == (3.0, (4, 5))


def test_a_digest_is_a_key_and_a_pickle_and_a_text() -> None:
    a = np.arange(6.0)
    d = tt.digest(a)
    assert {d: 1}[tt.digest(a.copy())] == 1
    assert pickle.loads(pickle.dumps(d)) == d
    assert tt.Digest(d.hex()) == d
    assert tt.Digest(d.hex().upper()) == d
    assert repr(d) == f"Digest('{d.hex()}')"
    assert d.as_dict() == {"hex": d.hex()}
    assert len(d.hex()) == 32
    assert d != d.hex()


def test_nan_is_left_out_of_the_mean_and_said() -> None:
    s = tt.stats(np.array([1.0, np.nan, 3.0]))
    assert (s.mean, s.nan) == (2.0, 1)
    assert not math.isnan(s.std)
