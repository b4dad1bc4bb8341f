"""Metrics as HDF5, by h5py: one group a key, with the datasets `keys` and `values`.

`/` in a key nests groups.  A key that HDF5 cannot have as a path ("a//b", "./a", "a/keys")
has its offending parts escaped; its group carries the real one as the attribute `key`.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

Path = str | os.PathLike[str]
ODD = {"", ".", "..", "keys", "values"}  # parts that HDF5, or this layout, reads otherwise


def save(filename: Path, steps: dict[int, dict[str, float]], condensed: bool) -> None:
    """Write all metrics of all steps."""
    import h5py
    import numpy as np

    by_key: dict[str, dict[int, float]] = {}
    for step, entry in steps.items():
        for key, value in entry.items():
            by_key.setdefault(key, {})[step] = value
    # By a file of Python's: where HDF5 itself meets a full disk, it crashes.
    with open(filename, "w+b") as raw, h5py.File(raw, "w") as file:
        if condensed:
            for key, values in by_key.items():
                group = file.require_group(_path(key))  # "a" is there if "a/b" was
                if _path(key) != key:
                    group.attrs["key"] = key
                group.create_dataset("keys", data=np.array(list(values), dtype=np.float64))
                group.create_dataset(
                    "values", data=np.array(list(values.values()), dtype=np.float64)
                )
            return
        for step, entry in steps.items():
            group = file.create_group(str(step))
            text = h5py.string_dtype("utf-8")
            group.create_dataset("keys", data=np.array(list(entry), dtype=object), dtype=text)
            group.create_dataset("values", data=np.array(list(entry.values()), dtype=np.float64))


def load(filename: Path) -> dict[str, dict[int, float]]:
    """Read all metrics: `{key: {step: value}}`."""
    import h5py

    out: dict[str, dict[int, float]] = {}
    with h5py.File(filename, "r") as file:
        for name, group in _groups(file):
            keys, values = _arrays(group)
            for key, value in zip(keys, values.tolist(), strict=True):
                if isinstance(key, str):  # a group for each step
                    out.setdefault(key, {})[_step(float(name))] = value
                else:
                    out.setdefault(name, {})[_step(float(key))] = value
    return out


def entry_keys(filename: Path) -> list[str]:
    """Give the full keys."""
    import h5py

    with h5py.File(filename, "r") as file:
        return [key for key, _ in _groups(file)]


def entry(filename: Path, key: str) -> tuple[Any, Any] | None:
    """Give (steps, values) of one key; None if it is not there."""
    import h5py

    with h5py.File(filename, "r") as file:
        path = _path(key)
        group = file.get(path) if path in file else None
        return _arrays(group) if group is not None and _is_entry(group) else None


def _path(key: str) -> str:
    def part(text: str) -> str:
        if text in ODD or text.startswith("%") or "\0" in text:
            return "%" + text.encode("utf-8", "surrogatepass").hex()
        return text

    return "/".join(map(part, key.split("/")))


def _step(number: float) -> int:
    return int(number) if number.is_integer() else number  # type: ignore[return-value]


def _is_entry(group: Any) -> bool:
    import h5py

    return isinstance(group, h5py.Group) and all(
        isinstance(group.get(name), h5py.Dataset) for name in ("keys", "values")
    )


def _groups(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Give (key, group) of every entry."""
    import h5py

    for name, child in group.items():
        if not isinstance(child, h5py.Group):
            continue
        here = f"{path}/{name}" if path else name
        if _is_entry(child):
            yield str(child.attrs.get("key", here)), child
        yield from _groups(child, here)


def _arrays(group: Any) -> tuple[Any, Any]:
    keys = group["keys"]
    names = keys.asstr()[()] if keys.dtype.kind == "O" else keys[()]
    return names, group["values"][()]
