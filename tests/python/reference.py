"""What NumPy and exact arithmetic say, for the tests to compare with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FLOAT_FIELDS = ["min", "max", "absmax", "var", "std", "l1", "l2", "rms"]
COUNT_FIELDS = ["count", "nan", "posinf", "neginf", "zeros"]


def expected_stats(a: np.ndarray) -> dict[str, Any]:
    """Compute every field of Stats by NumPy and math.fsum from a native array."""
    flat = a.reshape(-1)
    if flat.dtype.kind in "iub":
        return _of_integers([int(x) for x in flat.tolist()])
    if flat.dtype.kind == "c":
        return _of_complex(flat.astype(np.complex128))
    return _of_floats(flat.astype(np.float64))


def _of_integers(values: list[int]) -> dict[str, Any]:
    out = _of_floats(np.array([float(x) for x in values], dtype=np.float64))
    out["min"] = min(values, default=None)
    out["max"] = max(values, default=None)
    out["absmax"] = max(map(abs, values), default=None)
    out["sum"] = sum(values)
    out["mean"] = sum(values) / len(values) if values else math.nan
    return out


def _of_complex(z: np.ndarray) -> dict[str, Any]:
    size = np.where(np.isnan(z.real) | np.isnan(z.imag), np.nan, np.hypot(z.real, z.imag))
    out = _of_floats(size)
    kept = z[np.isfinite(size)]
    out["sum"] = complex(math.fsum(kept.real), math.fsum(kept.imag))
    out["mean"] = out["sum"] / len(kept) if len(kept) else complex(math.nan, math.nan)
    return out


def _of_floats(x: np.ndarray) -> dict[str, Any]:
    kept = x[np.isfinite(x)].tolist()
    n = len(kept)
    total = math.fsum(kept)
    mean = total / n if n else math.nan
    squares = math.fsum(v * v for v in kept)
    var = math.fsum((v - mean) ** 2 for v in kept) / (n - 1) if n > 1 else math.nan
    return {
        "count": x.size,
        "nan": int(np.isnan(x).sum()),
        "posinf": int(np.isposinf(x).sum()),
        "neginf": int(np.isneginf(x).sum()),
        "zeros": int((x == 0).sum()),
        "min": min(kept, default=math.nan),
        "max": max(kept, default=math.nan),
        "absmax": max(map(abs, kept), default=math.nan),
        "sum": total,
        "mean": mean,
        "var": var,
        "std": math.sqrt(var) if n > 1 else math.nan,
        "l1": math.fsum(map(abs, kept)),
        "l2": math.sqrt(squares),
        "rms": math.sqrt(squares / n) if n else math.nan,
    }


def is_near(got: Any, want: Any, slack: float) -> bool:
    """Tell whether got is want, or off by no more than *slack*; NaN is NaN."""
    if want is None or isinstance(want, int):
        return bool(got == want) and type(got) is type(want)
    if isinstance(want, complex):
        return is_near(got.real, want.real, slack) and is_near(got.imag, want.imag, slack)
    if math.isnan(want):
        return math.isnan(got)
    return bool(got == want) or abs(got - want) <= slack


def assert_stats_match(s: Any, want: dict[str, Any]) -> None:
    """Check every field: sum and mean within 1e-6 of the sum of |x|, others relative."""
    l1 = want["l1"]
    finite = want["count"] - want["nan"] - want["posinf"] - want["neginf"]
    for name, value in want.items():
        if name in COUNT_FIELDS:
            slack = 0.0
        elif name == "sum":
            slack = 1e-6 * l1
        elif name == "mean":
            slack = 1e-6 * l1 / max(finite, 1)
        elif isinstance(value, float) and name in FLOAT_FIELDS:
            slack = 1e-6 * abs(value)
            if name in ("var", "std"):  # of equal values: nothing is left to be relative to
                slack += 1e-12 * (want["rms"] ** 2 if name == "var" else want["rms"])
        else:
            slack = 0.0
        got = getattr(s, name)
        assert is_near(got, value, slack), f"{name}: got {got!r}, want {value!r}"
