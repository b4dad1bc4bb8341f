"""Write HDF5 files: whole ones, and (with hdf5_rows.py) those that grow while a program runs.

h5py is imported when a file is opened.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

from tensortap.files.imports import needed


def library() -> Any:
    """Import h5py."""
    return needed("h5py", "HDF5 files need h5py: pip install h5py")


@contextmanager
def create(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Create or replace an HDF5 file, and close it at the end.

    Python writes the file: HDF5's own driver crashes the process when the disk is full.
    """
    h5py = library()
    with open(path, "w+b") as raw, h5py.File(raw, "w") as file:
        yield file


def create_growing(path: str | os.PathLike[str], *, is_followed: bool) -> Any:
    """Create or replace an HDF5 file that stays open; *is_followed*: readers follow it (SWMR).

    HDF5's own driver writes it, as only that flushes and lets others read.
    """
    libver = "latest" if is_followed else None  # an older one opens after a kill
    return library().File(path, "w", libver=libver)


def put(file: Any, path: str, data: Any, kind: Any = None) -> None:
    """Write a dataset: an array, or a list of numbers or texts; *kind* is its type."""
    import numpy as np

    if kind is str:
        file.create_dataset(
            path, data=np.array(data, object), dtype=library().string_dtype("utf-8")
        )
    else:
        file[path] = np.asarray(data, kind)


def path_of(*names: str, reserved: Container[str] = ()) -> str:
    """Join names to a path, and escape each part that HDF5 or the layout would read differently.

    "", "." and ".." mean something else to HDF5; *reserved* are names that the layout uses.
    """

    def escaped(part: str) -> str:
        if part in ("", ".", "..") or part in reserved or part.startswith("%") or "\0" in part:
            return "%" + part.encode("utf-8", "surrogatepass").hex()
        return part

    return "/".join(map(escaped, "/".join(names).split("/")))
