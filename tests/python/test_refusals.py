"""Objects whose elements cannot be read: a TypeError that names the kind."""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tensortap as tt
from tensortap import _core

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.mark.parametrize(
    ("a", "name"),
    [
        (np.array([datetime.date(2020, 1, 1)], "M8[D]"), r"datetime64\[D\]"),
        (np.zeros(3, "m8[s]"), r"timedelta64\[s\]"),
        (np.zeros(3, "S5"), "S5"),
        (np.zeros(3, "U5"), "U5"),
        (np.zeros(3, object), "object"),
        (np.zeros(3, "V3"), "V3"),
        (np.zeros(3, [("a", "f4"), ("b", "i8")]), r"\('a', '<f4'\)"),
        (np.zeros(3, np.longdouble), "float128"),
        (np.zeros(3, np.clongdouble), "complex256"),
        (np.zeros(3, ml_dtypes.int4), "int4"),
        (np.zeros(3, ml_dtypes.float8_e8m0fnu), "float8_e8m0fnu"),
    ],
)
def test_an_array_of_a_type_we_do_not_read_is_named(a: np.ndarray, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}.* accepted are float64 float32"):
        _core.stats(a)


@pytest.mark.parametrize("obj", [[1.0, 2.0], (1,), 3, 2.5, None, "text", {1: 2}, object()])
def test_what_is_no_tensor_is_named_by_its_type(obj: object) -> None:
    with pytest.raises(TypeError, match=f"not {type(obj).__name__}.*numpy.asarray"):
        _core.stats(obj)


@pytest.mark.parametrize("date", [np.datetime64("2020-01-02"), np.timedelta64(3, "s")])
def test_a_date_is_named_and_not_read_as_the_bytes_it_lends(date: np.generic) -> None:
    assert memoryview(date).format == "B"
    with pytest.raises(TypeError, match=re.escape(f"element type {date.dtype} cannot be read")):
        _core.stats(date)


def test_a_masked_array_is_refused_because_its_memory_holds_masked_elements() -> None:
    with pytest.raises(TypeError, match=r"masked array: use a\.compressed"):
        _core.stats(np.ma.masked_equal([1.0, 2.0], 2.0))


def test_a_failed_call_leaks_no_reference() -> None:
    a = np.zeros(3, object)
    before = sys.getrefcount(a)
    for _ in range(100):
        with pytest.raises(TypeError):
            _core.stats(a)
    assert sys.getrefcount(a) == before


def test_an_array_can_be_resized_after_a_call_because_the_buffer_is_given_back() -> None:
    a = np.arange(10.0)
    for call in (_core.stats, _core.digest, _core.histogram, _core.sample):
        call(a)
    _core.compare(a, a)
    a.resize(20, refcheck=True)
    b = bytearray(100)
    _core.stats(b)
    b.extend(b"more")  # BufferError if somebody still held it


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda a: _core.stats(), TypeError),
        (lambda a: _core.stats(a, a), TypeError),
        (lambda a: _core.stats(a, bogus=1), TypeError),
        (lambda a: _core.stats(a, nan_policy="sometimes"), ValueError),
        (lambda a: _core.stats(a, nan_policy=3), ValueError),
        (lambda a: _core.compare(a), TypeError),
        (lambda a: _core.compare(a, a[:2]), ValueError),
        (lambda a: _core.compare(a, a, rtol="x"), TypeError),
        (lambda a: _core.sample(a, max_vector=2.5), TypeError),
        (lambda a: _core.histogram(a).quantile(1.5), ValueError),
        (lambda a: _core.histogram(a) + 1, TypeError),
        (lambda a: _core.attention(a, a), ValueError),
        (lambda a: _core.Digest("xyz"), ValueError),
        (lambda a: _core.Stats(), TypeError),
    ],
)
def test_a_wrong_argument_is_refused(call: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(np.arange(5.0))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: _core.compare(a, a, rtol="x"), r"compare\(\): rtol must be a number, not 'x'"),
        (
            lambda a: _core.sample(a, max_vector=2.5),
            r"sample\(\): max_vector must be a whole number, not 2.5",
        ),
        (
            lambda a: _core.attention(a, a, scale="x"),
            r"attention\(\): scale must be a number or None, not 'x'",
        ),
    ],
)
def test_a_refused_option_is_named_with_what_it_got(call: object, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call(np.arange(5.0))  # type: ignore[operator]


def test_what_is_no_model_has_no_paths() -> None:
    torch = pytest.importorskip("torch")
    from tensortap.trace import paths

    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not int"):
        paths(3, torch.zeros(2))  # type: ignore[arg-type]


def test_a_pattern_of_names_is_a_text(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        run.log("x", 1)
    with pytest.raises(TypeError, match=r"pattern must be a glob like 'activation/\*', not 3"):
        tt.open(tmp_path / "run").names(3)  # type: ignore[arg-type]


def test_a_comparison_names_the_dimension_in_which_shapes_differ() -> None:
    with pytest.raises(ValueError, match="shapes differ: size 3 against 4 in dimension 0"):
        tt.compare(np.zeros((3, 4)), np.zeros((4, 3)))


def test_a_quantile_out_of_range_is_told_which_it_was() -> None:
    with pytest.raises(ValueError, match="between 0 and 1, not at 2"):
        tt.histogram(np.zeros(3)).quantile(2)
