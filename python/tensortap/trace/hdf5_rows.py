"""The datasets of one name: values as rows, their true shapes, iterations and ranks.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

SMALL = 1 << 18  # bytes: chunks of small values hold several
LARGE = 1 << 25  # chunks of huge values hold a part of one
MOST_ROWS = 1024  # in a chunk
COUNT_ROWS = 512  # in a chunk of iterations or ranks


class RowSet:
    """Grows by a row a value; in all other dimensions when a larger value comes."""

    def __init__(
        self,
        file: Any,
        name: str,
        dtype: Any,
        shape: tuple[int, ...],
        filters: dict[str, Any],
        count_dtype: np.dtype[Any],
    ) -> None:
        """Make the datasets, without rows."""
        import h5py

        self.file, self.filters = file, filters
        self.key = name.replace("/", "|")  # a slash would make groups
        self.is_text = dtype == np.dtype(object)
        self.dataset = self._create(self.key, h5py.string_dtype() if self.is_text else dtype, shape)
        self.count, self.sizes = 0, list(shape)
        self.counted = [0, 0]  # iterations and ranks
        self.count_dtype = count_dtype
        self.is_filtered = bool(filters.get("shuffle")) or filters.get("compression") is not None
        plain = {"maxshape": (None,), "chunks": (COUNT_ROWS,), "dtype": count_dtype}
        self.iterations = file.create_dataset(f"{self.key}_iterations", (0,), **plain)
        self.ranks = file.create_dataset(f"{self.key}_ranks", (0,), **plain)
        self.shapes = None
        if shape:
            self.shapes = file.create_dataset(
                f"{self.key}_shapes",
                (0, len(shape)),
                maxshape=(None, len(shape)),
                chunks=(COUNT_ROWS, len(shape)),
                dtype=np.int64,
            )

    def _create(self, key: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        filters = {} if self.is_text else self.filters
        made = self.file.create_dataset(
            key,
            (0, *shape),
            maxshape=(None,) * (1 + len(shape)),
            chunks=_chunks(shape, np.dtype(dtype).itemsize),
            dtype=dtype,
            **filters,
        )
        self.dtype, self.chunks = made.dtype, made.chunks
        return made

    def append(self, rows: list[Any]) -> None:
        """Append values of this number of dimensions."""
        if not self.is_text:
            self._widen(rows)
        start, end = self.count, self.count + len(rows)
        for row in rows:
            self.sizes = [max(pair) for pair in zip(self.sizes, row.shape, strict=True)]
        self.dataset.id.set_extent((end, *self.sizes))
        for at, row in enumerate(rows, start):
            if self._write_chunk(at, row):
                continue
            where = (at, *(slice(size) for size in row.shape))
            self.dataset[where] = row if row.shape else row.item() if self.is_text else row
        if self.shapes is not None:
            _append(self.shapes, start, np.array([row.shape for row in rows], dtype=np.int64))
        self.count = end

    def append_counts(self, iterations: list[int], ranks: list[int]) -> None:
        """Append what belongs to the values before they were stacked."""
        for i, numbers in enumerate((iterations, ranks)):
            dataset = (self.iterations, self.ranks)[i]
            _append(dataset, self.counted[i], np.array(numbers, dtype=self.count_dtype))
            self.counted[i] += len(numbers)

    def _write_chunk(self, at: int, row: np.ndarray[Any, Any]) -> bool:
        """Write a value that is one whole chunk past HDF5's conversions and caches."""
        if row.nbytes < SMALL or self.is_text or self.chunks != (1, *row.shape):
            return False
        if row.dtype != self.dtype or self.is_filtered:
            return False
        offset = (at, *(0 for _ in row.shape))
        self.dataset.id.write_direct_chunk(offset, np.ascontiguousarray(row))
        return True

    def _widen(self, rows: list[Any]) -> None:
        """Make the dataset anew with a type that holds the new values too."""
        dtype = self.dtype
        for row in rows:
            if row.dtype != dtype:
                dtype = np.promote_types(dtype, row.dtype)
        if dtype == self.dtype:
            return
        old, temporary = self.dataset, f"{self.key}__widened"
        made = self._create(temporary, dtype, old.shape[1:])
        made.resize(old.shape)
        for at in range(self.count):
            made[at] = old[at]
        del self.file[self.key]
        self.file.move(temporary, self.key)
        self.dataset = self.file[self.key]


def _append(dataset: Any, start: int, numbers: np.ndarray[Any, Any]) -> None:
    """Append rows by HDF5's own calls: h5py's indexing costs ten times as much."""
    from h5py import h5s

    if not numbers.size:
        return
    dataset.id.set_extent((start + len(numbers), *numbers.shape[1:]))
    space = dataset.id.get_space()
    space.select_hyperslab((start, *(0 for _ in numbers.shape[1:])), numbers.shape)
    dataset.id.write(h5s.create_simple(numbers.shape), space, numbers)


def _chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Give the chunk: one value, several small ones, or a part of a huge one."""
    chunk = [max(size, 1) for size in shape]
    size = int(np.prod(chunk, dtype=np.int64)) * itemsize if chunk else itemsize
    rows = min(max(SMALL // max(size, 1), 1), MOST_ROWS)
    axis = 0
    while size > LARGE and axis < len(chunk):
        if chunk[axis] == 1:
            axis += 1
            continue
        size = size // chunk[axis] * ((chunk[axis] + 1) // 2)
        chunk[axis] = (chunk[axis] + 1) // 2
    return (rows, *chunk)
