"""The same elements laid out in memory in every way NumPy and torch allow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ml_dtypes = __import__("pytest").importorskip("ml_dtypes")

FLOATS = ["float64", "float32", "float16"]
SMALL_FLOATS = [
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = [*FLOATS, *SMALL_FLOATS, *INTEGERS, "bool", "complex64", "complex128"]
SHAPES: list[tuple[int, ...]] = [
    (),
    (0,),
    (1,),
    (3, 0, 2),
    (7,),
    (33,),
    (5, 9),
    (2, 3, 4),
    (2047,),
    (2049,),
    (65, 63),
    (3, 1, 17, 2),
]


def dtype_of(name: str) -> np.dtype:
    """Find a dtype by name, those of ml_dtypes too."""
    return np.dtype(getattr(ml_dtypes, name) if name in SMALL_FLOATS else name)


def random_array(name: str, shape: tuple[int, ...], seed: int, specials: bool) -> np.ndarray:
    """Make an array of a type, with NaN, Inf, zeros, -0.0 and denormals on request."""
    rng = np.random.default_rng(seed)
    dtype = dtype_of(name)
    size = int(np.prod(shape))
    if name == "bool":
        return (rng.integers(0, 2, size) > 0).reshape(shape)
    if name in INTEGERS:
        info = np.iinfo(dtype)
        wide = rng.integers(0, 2) > 0  # the whole range, or numbers near zero
        low, high = (info.min, info.max) if wide else (max(-9, info.min), 9)
        return rng.integers(low, high, size, dtype=dtype, endpoint=True).reshape(shape)
    if name.startswith("complex"):
        part = "float32" if name == "complex64" else "float64"
        z = np.empty(size, dtype)
        z.real = random_array(part, (size,), seed + 1, specials)
        z.imag = random_array(part, (size,), seed + 2, specials)
        return z.reshape(shape)
    x = rng.normal(rng.normal() * 5, 1, size)
    if specials and size:
        values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-310, 1e-40, 6e-8]
        at = rng.integers(0, size, max(1, size // 5))
        x[at] = rng.choice(values, at.size)
    with np.errstate(over="ignore"):
        return x.astype(dtype).reshape(shape)


def _spread(a: np.ndarray) -> np.ndarray:
    """Lay the elements out with gaps, in every dimension."""
    wide = np.zeros(tuple(2 * n + 1 for n in a.shape), a.dtype)
    inner = wide[(..., *(slice(1, None, 2) for _ in a.shape))]
    inner[...] = a
    return inner


def _unaligned(a: np.ndarray) -> np.ndarray:
    raw = np.zeros(a.size * a.itemsize + 1, np.uint8)
    view = raw[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


def _read_only(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.flags.writeable = False
    return a


# Each gives an array equal to its argument, element by element.
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": np.copy,
    "transposed": lambda a: a.T.copy().T,
    "spread": _spread,
    "reversed": lambda a: np.flip(np.flip(a).copy()),
    "unaligned": _unaligned,
    "read-only": _read_only,
}
