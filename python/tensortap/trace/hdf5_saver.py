"""H5PYSaverCallback: moves gathered values into an HDF5 file.

    saver = H5PYSaverCallback("trace.h5")
    with ModelTracer(model, paths, post_gather_callbacks=[stack_padded_tensors, saver]):
        train()
    saver.datasets["forward.x"]

One dataset a name, a row a value, which grows in every dimension.  It is flushed after each
gather, so that a killed program leaves a file that opens.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from tensortap.files import hdf5
from tensortap.files.hdf5_rows import RowSet
from tensortap.trace.gather import place
from tensortap.trace.results import GlobalVariableResult, LocalVariableResult

RESULTS = (GlobalVariableResult, LocalVariableResult)
HAS_NUMPY_TYPE = (torch.float16, torch.float32, torch.float64)  # bf16 and fp8 have none


class H5PYSaverCallback:
    """A post_gather callback that appends to HDF5 datasets, and empties the results.

    Args:
        dataset_file: The file. Rank 0 writes it.
        iteration_dtype: Type of iterations and ranks.
        float_dtype: Type of floating point values.
        int_dtype: Type of integers; 64 bits if they do not fit.
        compression, compression_opts, shuffle: As for `h5py.Group.create_dataset`.
        existing_ok: Replace a file that exists.
        swmr: Let readers follow while the file grows. A killed program then leaves a file that
            needs `h5clear -s`.
        layout: All names with the number of dimensions of their values, or (dimensions, type).
            HDF5 needs it for *swmr*.

    Raises:
        ValueError: The file exists and *existing_ok* is False, or *swmr* lacks *layout*.

    Example:
        >>> from tensortap.trace import H5PYSaverCallback
        >>> with H5PYSaverCallback("trace.h5") as saver:
        ...     saver("loss", [0.5, 0.25], [1, 2], [0, 0])
        ...     print(saver.datasets["loss"][:].tolist())
        [0.5, 0.25]
    """

    takes_both_forms = True
    h5_file: Any  # h5py.File; None on other ranks than 0
    datasets: Any  # dict of datasets by name; None on other ranks than 0

    def __init__(
        self,
        dataset_file: str | os.PathLike[str],
        iteration_dtype: Any = np.int64,
        float_dtype: Any = np.float32,
        int_dtype: Any = np.int32,
        compression: Any = None,
        compression_opts: Any = None,
        shuffle: bool = False,
        existing_ok: bool = True,
        *,
        swmr: bool = False,
        layout: Mapping[str, int | tuple[int, Any]] | None = None,
    ) -> None:
        """Open the file on rank 0."""
        self.dataset_file = Path(dataset_file)
        if swmr and not layout:
            raise ValueError(
                "swmr=True needs layout: every name with the number of dimensions of its values"
            )
        self._dtypes = {
            "iteration": np.dtype(iteration_dtype),
            "float": np.dtype(float_dtype),
            "int": np.dtype(int_dtype),
        }
        self._filters: dict[str, Any] = {"shuffle": bool(shuffle)}
        if compression is not None:
            self._filters.update(compression=compression, compression_opts=compression_opts)
        self.is_swmr = bool(swmr)
        self.h5_file = self.datasets = None
        self._rows: dict[str, RowSet] = {}
        self._dims: dict[str, int | str] = {}  # of the first value of a name
        self._warned: set[str] = set()
        self.is_closed = False
        if place()[0] == 0:
            self._open(existing_ok)
            for name, one in (layout or {}).items():
                dims, dtype = one if isinstance(one, tuple) else (one, self._dtypes["float"])
                self._dims[name] = dims
                self._rows_of(name, np.dtype(dtype), (1,) * dims)
            if self.is_swmr:
                self.h5_file.swmr_mode = True

    def _open(self, existing_ok: bool) -> None:
        hdf5.library()  # or say at once what to install
        if self.dataset_file.exists() and not existing_ok:
            raise ValueError(
                f"{self.dataset_file} exists already; give another file, or existing_ok=True"
            )
        self.dataset_file.parent.mkdir(parents=True, exist_ok=True)
        self.h5_file = hdf5.create_growing(self.dataset_file, is_followed=self.is_swmr)
        self.datasets = {}

    # ---- the callback

    def __call__(
        self,
        name: str,
        values: Any,
        iterations: list[int] | None = None,
        ranks: list[int] | None = None,
    ) -> None:
        """Append the values of one name, and leave its lists empty."""
        if self.h5_file is None:
            return
        if self.is_closed:
            raise ValueError(f"{self.dataset_file} is closed")
        result = values if isinstance(values, RESULTS) else None
        if result is not None:
            values, iterations = result.values, result.iterations
            ranks = getattr(result, "ranks", [])
        self._append(name, values, iterations or [], ranks or [])
        self.h5_file.flush()
        if result is not None:
            result.values, result.iterations = [], []
            if isinstance(result, GlobalVariableResult):
                result.ranks = []
            return
        for one in (values, iterations, ranks):
            if isinstance(one, list):
                one.clear()

    def _append(self, name: str, values: Any, iterations: list[int], ranks: list[int]) -> None:
        is_stacked = len(values) != len(iterations)  # else each value has its own iteration
        parts: dict[str, tuple[list[Any], list[int], list[int]]] = {}
        for i, value in enumerate(values):
            stored, array = self._stored(name, value)
            part = parts.setdefault(stored, ([], [], []))
            part[0].append(array)
            if not is_stacked:
                part[1].append(iterations[i])
                part[2].extend(ranks[i : i + 1])
        for stored, (rows, its, rks) in parts.items():
            to = self._rows_of(stored, rows[0].dtype, rows[0].shape)
            to.append(rows)
            if is_stacked:
                its, rks, iterations, ranks = iterations, ranks, [], []  # all belong to the first
            to.append_counts(its, rks)
            self.datasets[stored] = to.dataset  # a new one if its type was widened

    def _rows_of(self, stored: str, dtype: Any, shape: tuple[int, ...]) -> RowSet:
        rows = self._rows.get(stored)
        if rows is None:
            if self.is_swmr and self.h5_file.swmr_mode:
                raise ValueError(
                    f"swmr=True: {stored!r} is not in layout, which must have every name"
                )
            iteration_dtype = self._dtypes["iteration"]
            rows = RowSet(self.h5_file, stored, dtype, shape, self._filters, iteration_dtype)
            self._rows[stored] = rows
            self.datasets[stored] = rows.dataset
        return rows

    # ---- types

    def _stored(self, name: str, value: Any) -> tuple[str, Any]:
        """Return the dataset's name, and the value as an array; None and str are stored as text."""
        kind: int | str
        if value is None or isinstance(value, str):
            kind, suffix, array = "text", "text", np.array(str(value), dtype=object)
        else:
            array = self._array(name, value)
            kind, suffix = array.ndim, f"{array.ndim}d"
        is_usual = self._dims.setdefault(name, kind) == kind
        return name if is_usual else f"{name}__{suffix}", array

    def _array(self, name: str, value: Any) -> np.ndarray[Any, Any]:
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, torch.Tensor):
            value = value.detach()
            if value.is_floating_point() and value.dtype not in HAS_NUMPY_TYPE:
                value = value.float()
            value = value.resolve_conj().resolve_neg().cpu().numpy()
        elif not isinstance(value, (bool, int, float, complex, np.generic)):
            raise TypeError(f"a {type(value).__name__} cannot be stored in HDF5: {value!r:.60}")
        array = np.asarray(value)
        if array.dtype.kind == "f":
            return array.astype(self._dtypes["float"], copy=False)
        if array.dtype.kind == "c":
            self._warn(name, f"complex values keep their type, {array.dtype}")
            return array
        if array.dtype.kind in "iub":
            return self._integers(name, array)
        raise TypeError(f"{array.dtype} values cannot be stored in HDF5: {value!r:.60}")

    def _integers(self, name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        to = self._dtypes["int"]
        known = self._rows.get(name)
        if known is not None and known.dtype in (np.int64, np.uint64):
            to = known.dtype
        if array.size and to.kind in "iu" and not np.can_cast(array.dtype, to):
            limits = np.iinfo(to)
            if array.min() < limits.min or array.max() > limits.max:
                wide = np.int64 if array.max() <= np.iinfo(np.int64).max else np.uint64
                self._warn(name, f"integers do not fit {to} and are stored as {np.dtype(wide)}")
                to = np.dtype(wide)
        return array.astype(to, copy=False)

    def _warn(self, name: str, text: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            warnings.warn(f"{self.dataset_file.name}: {name}: {text}", RuntimeWarning, stacklevel=2)

    # ---- the end

    def close(self) -> None:
        """Close the file; twice is harmless."""
        if self.h5_file is not None and not self.is_closed:
            self.is_closed = True
            self.h5_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "open"
        return (
            f"<H5PYSaverCallback {str(self.dataset_file)!r}: {len(self._rows)} datasets, {state}>"
        )
