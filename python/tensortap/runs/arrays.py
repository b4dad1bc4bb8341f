"""The points of a run as arrays and tables of other libraries, where those are installed.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from array import array
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from tensortap.files.imports import needed

if TYPE_CHECKING:
    from tensortap import _core
    from tensortap.runs.run import Run

SKETCH = 17  # numbers of a token
OF_POINT = ("value", "call", "time", "phase", "thread")
COUNTS = ("count", "nan", "posinf", "neginf", "zeros")
OF_STATS = ("min", "max", "absmax", "sum", "mean", "var", "std", "l1", "l2", "rms")
FIELDS = OF_POINT + COUNTS + OF_STATS
SCALAR, STATS, DIGEST, HIST, SAMPLE, VALUE, TOKENS, PLACED = (1 << i for i in range(8))  # products


def numpy_module() -> Any:
    """Import NumPy."""
    return needed("numpy", "this needs NumPy: pip install numpy")


def numpy_dtype(np: Any, name: str) -> Any:
    """Find the type of elements that NumPy may not have by itself."""
    if name.startswith(("bfloat16", "float8")):
        message = f"NumPy has no {name} of its own: pip install ml_dtypes"
        return np.dtype(getattr(needed("ml_dtypes", message), name))
    return np.dtype(name)


def value(reader: _core.RunReader, file: int, site: int, index: int, as_numpy: bool) -> Any:
    """Return the value of one point; LookupError if it was evicted."""
    dtype, shape, memory = reader.value(file, site, index)
    if as_numpy:
        np = numpy_module()
        return np.ndarray(shape, numpy_dtype(np, dtype), memory)
    torch = needed("torch", "there is no torch here; as_numpy=True gives a NumPy array")
    kind = getattr(torch, dtype)
    if not memory:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(memory, dtype=torch.uint8).view(kind).reshape(shape)


def sketches(reader: _core.RunReader, file: int, site: int, index: int) -> Any:
    """Return the sketches of the tokens of one point, a row each."""
    np = numpy_module()
    return np.frombuffer(reader.tokens(file, site, index), np.float32).reshape(-1, SKETCH)


def latest(reader: _core.RunReader, name: str) -> tuple[Any, ...]:
    """Return the latest point of a site, of the first rank that has any."""
    site = reader.find(name)
    file = next(i for i in range(len(reader.files())) if reader.points(i, site))
    return reader.point(file, site, -1)


def empty(kind: Literal["q", "d"], count: int) -> Any:
    """Make an array of int64 or float64: NumPy's, or the standard library's without NumPy."""
    try:
        import numpy
    except ImportError:
        return array(kind, bytes(8 * count))
    return numpy.empty(count, numpy.int64 if kind == "q" else numpy.float64)


def join(parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Join the columns of several files in the order of their steps."""
    if isinstance(parts[0][0], array):
        rows = sorted(chain(*(zip(*part, strict=True) for part in parts)), key=itemgetter(0))
        return array("q", (step for step, _ in rows)), array("d", (value for _, value in rows))
    np = numpy_module()
    steps = np.concatenate([part[0] for part in parts])
    order = np.argsort(steps, kind="stable")
    return steps[order], np.concatenate([part[1] for part in parts])[order]


def column(reader: _core.RunReader, file: int, site: int, field: str) -> tuple[Any, Any]:
    """Return steps and one field of one site in one file; filled in C."""
    cap = reader.points(file, site)
    steps, values = empty("q", cap), empty("d", cap)
    count = reader.series(file, site, field, steps, values)
    return steps[:count], values[:count]


BYTES_OF_POINT = 300  # as a Stats, or as a row of a frame


def refuse_bomb(reader: _core.RunReader, points: int, instead: str) -> None:
    """Raise ValueError if so many points take far more memory than the run has bytes."""
    if reader.outgrows(points * BYTES_OF_POINT):
        size = points * BYTES_OF_POINT / 1e6
        raise ValueError(
            f"these {points} points take {size:.0f} MB of memory, far more than the run: refused; "
            f"{instead}"
        )


def frame(run: Run, reader: _core.RunReader, pattern: str) -> Any:
    """Return all points as a pandas.DataFrame."""
    pandas = needed("pandas", "to_frame() needs pandas: pip install pandas")
    np = numpy_module()
    parts = []
    sites = {name: reader.find(name) for name in run.names(pattern)}
    points = sum(reader.points(i, site) for i in range(len(run.files)) for site in sites.values())
    refuse_bomb(reader, points, "choose fewer names, or read one with run.series(NAME, FIELD)")
    for name, site in sites.items():
        for i, file in enumerate(run.files):
            count = reader.points(i, site)
            if count:
                head = {"name": np.repeat(name, count), "rank": np.repeat(file.rank, count)}
                parts.append(pandas.DataFrame(head | columns(np, reader, i, site, count)))
    if not parts:
        return pandas.DataFrame(columns=["name", "rank", "step", *FIELDS])
    whole = pandas.concat(parts, ignore_index=True)
    return whole.sort_values(["step", "time"], kind="stable", ignore_index=True)


def columns(np: Any, reader: _core.RunReader, file: int, site: int, count: int) -> dict[str, Any]:
    """Return every field of a site as a column, NaN where a point does not have it."""
    found: dict[str, Any] = {"step": column(reader, file, site, "call")[0]}
    products = None
    for field in FIELDS:
        values = column(reader, file, site, field)[1]
        if len(values) not in (0, count):  # numbers and tensors under one name
            if products is None:
                products = column(reader, file, site, "products")[1].astype(np.int64)
            has_it = products & (SCALAR if field == "value" else STATS) != 0
            whole = np.full(count, np.nan)
            whole[has_it] = values
            values = whole
        found[field] = values if len(values) else np.full(count, np.nan)
    for field in ("call", "phase", "thread"):
        found[field] = found[field].astype(np.int64)
    found["time"] = found["time"].astype(np.int64).view("datetime64[ns]")
    return found
