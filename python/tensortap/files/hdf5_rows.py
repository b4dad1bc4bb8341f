"""HDF5 datasets that grow by rows, and in every other dimension.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tensortap.files import hdf5

SMALL = 1 << 18  # bytes: a chunk holds several values that are smaller
LARGE = 1 << 25  # bytes: a chunk holds a part of a value that is larger
MOST_ROWS = 1024  # in a chunk
COUNT_ROWS = 512  # in a chunk of iterations, ranks or shapes


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
        self.file, self.filters, self.count_dtype = file, filters, count_dtype
        self.key = name.replace("/", "|")  # a slash would make groups
        self.is_text = dtype == np.dtype(object)
        self.is_filtered = bool(filters.get("shuffle")) or filters.get("compression") is not None
        self.dataset = self._values(
            self.key, hdf5.library().string_dtype() if self.is_text else dtype, shape
        )
        self.count, self.sizes = 0, list(shape)
        self.iterations = self._numbers("iterations", count_dtype)
        self.ranks = self._numbers("ranks", count_dtype)
        self.shapes = self._numbers("shapes", np.int64, len(shape)) if shape else None

    def _values(self, key: str, dtype: Any, shape: tuple[int, ...]) -> Any:
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
        _append(self.iterations, np.array(iterations, dtype=self.count_dtype))
        _append(self.ranks, np.array(ranks, dtype=self.count_dtype))

    def _write_chunk(self, at: int, row: np.ndarray[Any, Any]) -> bool:
        """Write a value that is one whole chunk without HDF5's conversions and caches."""
        if row.nbytes < SMALL or self.is_text or self.chunks != (1, *row.shape):
            return False
        if row.dtype != self.dtype or self.is_filtered:
            return False
        self.dataset.id.write_direct_chunk((at, *([0] * row.ndim)), np.ascontiguousarray(row))
        return True

    def _widen(self, rows: list[Any]) -> None:
        """Replace the dataset by one whose type holds the new values too."""
        dtype = functools.reduce(np.promote_types, {row.dtype for row in rows}, self.dtype)
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
