"""HDF5 files: opening them, names for datasets, and datasets that grow by rows.

h5py is imported when a file is opened.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
import os
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

SMALL = 1 << 18  # bytes: a chunk holds several values that are smaller
LARGE = 1 << 25  # bytes: a chunk holds a part of a value that is larger
MOST_ROWS = 1024  # in a chunk
COUNT_ROWS = 512  # in a chunk of iterations, ranks or shapes


def library() -> Any:
    """Import h5py."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 files need h5py: pip install h5py", name="h5py") from error
    return h5py


@contextmanager
def create(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Create or replace an HDF5 file, and close it at the end.

    Python writes the file: HDF5's own driver crashes the process when the disk is full.
    """
    h5py = library()
    with open(path, "w+b") as raw, h5py.File(raw, "w") as file:
        yield file


def path_of(*names: str, reserved: Container[str] = ()) -> str:
    """Join names to a path, and escape each part that HDF5 or the layout would read differently.

    "", "." and ".." mean something else to HDF5; *reserved* are names that the layout uses.
    """

    def escaped(part: str) -> str:
        if part in ("", ".", "..") or part in reserved or part.startswith("%") or "\0" in part:
            return "%" + part.encode("utf-8", "surrogatepass").hex()
        return part

    return "/".join(map(escaped, "/".join(names).split("/")))


class RowSet:
    """The datasets of one name: values as rows, and their shapes, iterations and ranks.

    Grows by a row for each value, and in the other dimensions when a larger value arrives.
    """

    def __init__(
        self,
        file: Any,
        name: str,
        dtype: Any,
        shape: tuple[int, ...],
        filters: dict[str, Any],
        count_dtype: np.dtype[Any],
    ) -> None:
        """Create the datasets, without rows."""
        import numpy as np

        self.file, self.filters, self.count_dtype = file, filters, count_dtype
        self.key = name.replace("/", "|")  # a slash would make groups
        self.is_text = dtype == np.dtype(object)
        self.is_filtered = bool(filters.get("shuffle")) or filters.get("compression") is not None
        self.dataset = self._values(
            self.key, library().string_dtype() if self.is_text else dtype, shape
        )
        self.count, self.sizes = 0, list(shape)
        self.iterations = self._numbers("iterations", count_dtype)
        self.ranks = self._numbers("ranks", count_dtype)
        self.shapes = self._numbers("shapes", np.int64, len(shape)) if shape else None

    def _values(self, key: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        import numpy as np

        dataset = self.file.create_dataset(
            key,
            (0, *shape),
            maxshape=(None,) * (1 + len(shape)),
            chunks=_chunks(shape, np.dtype(dtype).itemsize),
            dtype=dtype,
            **({} if self.is_text else self.filters),
        )
        self.dtype, self.chunks = dataset.dtype, dataset.chunks
        return dataset

    def _numbers(self, suffix: str, dtype: Any, *width: int) -> Any:
        return self.file.create_dataset(
            f"{self.key}_{suffix}",
            (0, *width),
            maxshape=(None, *width),
            chunks=(COUNT_ROWS, *width),
            dtype=dtype,
        )

    def append(self, rows: list[Any]) -> None:
        """Append values with this number of dimensions."""
        import numpy as np

        if not self.is_text:
            self._widen(rows)
        start, self.count = self.count, self.count + len(rows)
        for row in rows:
            self.sizes = [max(pair) for pair in zip(self.sizes, row.shape, strict=True)]
        self.dataset.id.set_extent((self.count, *self.sizes))
        for at, row in enumerate(rows, start):
            if not self._write_chunk(at, row):
                where = (at, *(slice(size) for size in row.shape))
                self.dataset[where] = row.item() if self.is_text else row
        if self.shapes is not None:
            _append(self.shapes, np.array([row.shape for row in rows], dtype=np.int64))

    def append_counts(self, iterations: list[int], ranks: list[int]) -> None:
        """Append the iterations and ranks of the values before they were stacked."""
        import numpy as np

        _append(self.iterations, np.array(iterations, dtype=self.count_dtype))
        _append(self.ranks, np.array(ranks, dtype=self.count_dtype))

    def _write_chunk(self, at: int, row: np.ndarray[Any, Any]) -> bool:
        """Write a value that is one whole chunk without HDF5's conversions and caches."""
        import numpy as np

        if row.nbytes < SMALL or self.is_text or self.chunks != (1, *row.shape):
            return False
        if row.dtype != self.dtype or self.is_filtered:
            return False
        self.dataset.id.write_direct_chunk((at, *([0] * row.ndim)), np.ascontiguousarray(row))
        return True

    def _widen(self, rows: list[Any]) -> None:
        """Replace the dataset by one whose type holds the new values too."""
        import numpy as np

        dtype = self.dtype
        for row in rows:
            if row.dtype != dtype:
                dtype = np.promote_types(dtype, row.dtype)
        if dtype == self.dtype:
            return
        old, temporary = self.dataset, f"{self.key}__widened"
        wider = self._values(temporary, dtype, old.shape[1:])
        wider.resize(old.shape)
        for at in range(self.count):
            wider[at] = old[at]
        del self.file[self.key]
        self.file.move(temporary, self.key)
        self.dataset = self.file[self.key]


def _append(dataset: Any, numbers: np.ndarray[Any, Any]) -> None:
    """Append rows by HDF5's own calls: h5py's indexing costs ten times as much."""
    from h5py import h5s

    if not numbers.size:
        return
    start = dataset.id.shape[0]
    dataset.id.set_extent((start + len(numbers), *numbers.shape[1:]))
    space = dataset.id.get_space()
    space.select_hyperslab((start, *(0 for _ in numbers.shape[1:])), numbers.shape)
    dataset.id.write(h5s.create_simple(numbers.shape), space, numbers)


def _chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the shape of a chunk: one value, several small ones, or a part of a large one."""
    chunk = [max(size, 1) for size in shape]
    size = math.prod(chunk) * itemsize
    rows = min(max(SMALL // max(size, 1), 1), MOST_ROWS)
    for axis, length in enumerate(chunk):
        while size > LARGE and length > 1:
            half = (length + 1) // 2
            size = size // length * half
            chunk[axis] = length = half
    return (rows, *chunk)
