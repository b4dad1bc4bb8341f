"""Metrics by step and key: logged, aggregated, saved.

Until a step is aggregated, an entry is a number that was logged once, a list of several,
or a list of flattened tensors; afterwards it is a float.

An HDF5 file has one group for each key, with the datasets `keys` and `values`; `/` in a key
nests groups.  A part that HDF5 or this layout reads differently ("a//b", "./a", "a/keys") is
escaped, and the group carries the real key as the attribute `key`.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

import torch

from tensortap.files import hdf5

Path = str | os.PathLike[str]
Entry = dict[str, Any]
Aggregation = Callable[[Any], Any]
DATASETS = ("keys", "values")  # of one group in an HDF5 file


class StorageManager:
    """Store metrics as `{step: {key: value}}`, aggregate them, and save them.

    Args:
        logger: Logs how many metrics a step has.

    Example:
        >>> from tensortap.monitor import StorageManager
        >>> storage = StorageManager()
        >>> storage.log_scalar(1, "loss", 2.0)
        >>> storage.log_scalar(1, "loss", 4.0)
        >>> storage.aggregate_step(1)
        >>> storage.get_step_metrics(1)
        {'loss': 3.0}
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.log_dict: dict[int, Entry] = {}
        self.aggregation_fns: dict[str, Aggregation] = {}
        self.logger = logger

    # ---- steps

    def create_step_entry(self, step: int) -> None:
        """Start a step; forget its entries if it exists."""
        self.log_dict[step] = {}

    def has_step(self, step: int) -> bool:
        """Return whether a step has an entry."""
        return step in self.log_dict

    def get_step_metrics(self, step: int) -> Entry:
        """Return the entries of a step; an empty dict if there is no such step."""
        return self.log_dict.get(step, {})

    def get_all_metrics(self) -> dict[int, Entry]:
        """Return the entries of all steps."""
        return self.log_dict

    def load_metrics(self, log_dict: dict[int, Entry]) -> None:
        """Copy the metrics of another run."""
        if self.log_dict:
            raise ValueError("there are metrics already: clear() them first")
        self.log_dict = log_dict

    def clear(self) -> None:
        """Forget everything."""
        self.log_dict = {}

    # ---- logging

    def log_scalar(
        self, step: int, key: str, value: Any, aggregation_fn: Aggregation | None = None
    ) -> None:
        """Log a number or a one-element tensor; several of one key and step make a list."""
        self._log(step, key, _number(key, value), aggregation_fn)

    def log_tensor(
        self, step: int, key: str, tensor: torch.Tensor, aggregation_fn: Aggregation | None = None
    ) -> None:
        """Log all elements of a tensor; they are aggregated when the step ends."""
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"log_tensor: {key} must be a tensor, not {tensor!r}")
        self._log(step, key, [tensor.detach().flatten()], aggregation_fn)

    def _log(self, step: int, key: str, value: Any, aggregation_fn: Aggregation | None) -> None:
        entry = self.log_dict.setdefault(step, {})
        held = entry.get(key)
        if held is None:
            entry[key] = value
        elif isinstance(held, list):
            held.extend(value if isinstance(value, list) else [value])
        else:
            entry[key] = [held, *value] if isinstance(value, list) else [held, value]
        if aggregation_fn is not None:
            self.aggregation_fns[key] = aggregation_fn

    # ---- aggregation

    def aggregate_step(self, step: int) -> None:
        """Turn each entry into one number: by its aggregation function, or the mean."""
        if step in self.log_dict:
            self.aggregate_keys(step, self.unaggregated(step))

    def unaggregated(self, step: int) -> list[str]:
        """Return the keys of a step that are not yet one number."""
        entry = self.get_step_metrics(step)
        return [key for key, held in entry.items() if isinstance(held, (list, torch.Tensor))]

    def aggregate_keys(self, step: int, keys: list[str]) -> None:
        """Aggregate these entries; remove those that fail, and then raise the first failure."""
        entry = self.log_dict[step]
        means: list[tuple[str, torch.Tensor]] = []
        failed: RuntimeError | None = None
        for key in dict.fromkeys(keys):
            held = entry[key]
            values = _joined(held) if isinstance(held, list) else held
            function = self.aggregation_fns.get(key)
            if function is not None and isinstance(held, list):
                try:
                    self._aggregate(entry, key, function, values)
                except RuntimeError as error:
                    failed = failed or error
            elif not isinstance(values, torch.Tensor):
                entry[key] = fmean(values)
            elif values.is_complex():
                del entry[key]
                failed = failed or RuntimeError(f"{key} is complex: a metric is a real number")
            else:
                means.append((key, values))
        entry.update(_fetch_means(means))
        if failed is not None:
            raise failed
        if self.logger is not None:
            self.logger.info("Step %s: %s metrics", step, len(entry))

    def _aggregate(self, entry: Entry, key: str, function: Aggregation, values: Any) -> None:
        del entry[key]
        try:
            with torch.no_grad():
                result = function(values)
            parts = result if isinstance(result, dict) else {"": result}
            numbers = {key + end: float(_number(key + end, part)) for end, part in parts.items()}
        except Exception as error:
            raise RuntimeError(f"the aggregation function of {key} failed: {error}") from error
        entry.update(numbers)

    def aggregated(self, step: int) -> dict[str, float]:
        """Return a step as `aggregate_step` would leave it, without changing it."""
        scratch = self.copy_of(step)
        scratch.aggregate_step(step)
        return scratch.log_dict[step]

    def copy_of(self, step: int) -> StorageManager:
        """Return a storage with a copy of one step."""
        scratch = StorageManager()
        scratch.aggregation_fns = self.aggregation_fns
        scratch.log_dict[step] = {
            key: held[:] if isinstance(held, list) else held
            for key, held in self.get_step_metrics(step).items()
        }
        return scratch

    # ---- files

    def condensed_log_dict(self) -> dict[str, dict[int, Any]]:
        """Return `{key: {step: value}}`."""
        condensed: dict[str, dict[int, Any]] = {}
        for step, entry in self.log_dict.items():
            for key, value in entry.items():
                condensed.setdefault(key, {})[step] = value
        return condensed

    def save_hdf5(self, filename: Path, condensed: bool = True) -> None:
        """Write all metrics to a file: a group for each key, or (not condensed) for each step."""
        done = StorageManager()
        done.log_dict = {step: self.aggregated(step) for step in self.log_dict}
        groups: Any = done.condensed_log_dict() if condensed else done.log_dict
        with hdf5.create(filename) as file:
            for name, values in groups.items():
                path = hdf5.path_of(str(name), reserved=DATASETS)
                group = file.require_group(path)  # "a" exists if "a/b" was written first
                if path != str(name):
                    group.attrs["key"] = name
                hdf5.put(group, "keys", list(values), "float64" if condensed else str)
                hdf5.put(group, "values", list(values.values()), "float64")

    @staticmethod
    def load_hdf5(filename: Path) -> dict[str, dict[int, float]]:
        """Read a file of `save_hdf5`, condensed or not: `{key: {step: value}}`."""
        out: dict[str, dict[int, float]] = {}
        with hdf5.library().File(filename, "r") as file:
            for name, group in _groups(file):
                keys, values = _arrays(group)
                for key, value in zip(keys, values.tolist(), strict=True):
                    metric, step = (key, name) if isinstance(key, str) else (name, key)
                    number = float(step)
                    at: Any = int(number) if number.is_integer() else number
                    out.setdefault(metric, {})[at] = value
        return out

    @staticmethod
    def read_hdf5_entry_keys(filename: Path) -> list[str]:
        """Return the keys in a file (the steps, as text, if it is not condensed)."""
        with hdf5.library().File(filename, "r") as file:
            return [key for key, _ in _groups(file)]

    @staticmethod
    def read_hdf5_entry(filename: Path, entry_key: str) -> tuple[Any, Any] | None:
        """Return (steps, values) of one key as arrays; None if there is no such key."""
        with hdf5.library().File(filename, "r") as file:
            group = file.get(hdf5.path_of(str(entry_key), reserved=DATASETS))
            return _arrays(group) if _is_entry(group) else None


def _is_entry(group: Any) -> bool:
    h5py = hdf5.library()
    parts = [group.get(name) for name in DATASETS] if isinstance(group, h5py.Group) else [None]
    return all(isinstance(part, h5py.Dataset) for part in parts)


def _groups(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (key, group) of every entry."""
    for name, child in group.items():
        if isinstance(child, hdf5.library().Group):
            if _is_entry(child):
                yield str(child.attrs.get("key", path + name)), child
            yield from _groups(child, f"{path}{name}/")


def _arrays(group: Any) -> tuple[Any, Any]:
    keys = group["keys"]
    names = keys.asstr()[()] if keys.dtype.kind == "O" else keys[()]
    return names, group["values"][()]


def _number(key: str, value: Any) -> Any:
    """Return a float; for a tensor on a device a copy, which is fetched when the step ends."""
    if isinstance(value, torch.Tensor):
        if value.numel() != 1 or value.is_complex():
            raise ValueError(
                f"log_scalar: {key} must be a number or a tensor of one element, not one of shape "
                f"{tuple(value.shape)} and type {value.dtype}"
            )
        value = value.detach()
        return float(value) if value.device.type == "cpu" else value.clone().reshape(())
    with contextlib.suppress(TypeError, ValueError):
        if hasattr(value, "__float__"):  # a str has none
            return float(value)
    raise ValueError(f"log_scalar: {key} must be a number or a one-element tensor, not {value!r}")


def _joined(values: list[Any]) -> Any:
    """Return a list of numbers; tensors, also mixed with numbers, become one tensor."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not tensors:
        return values
    if all(tensor.dim() == 0 for tensor in tensors):  # scalars that stayed on their device
        return [float(value) for value in values]
    if len(values) == 1:
        return tensors[0]
    first = next(tensor for tensor in tensors if tensor.dim() > 0)
    flat = [
        value.reshape(-1) if isinstance(value, torch.Tensor) else first.new_tensor([value])
        for value in values
    ]
    return torch.cat([tensor.to(first.device) for tensor in flat])


def _fetch_means(values: list[tuple[str, torch.Tensor]]) -> dict[str, float]:
    """Return the mean of each tensor as a number, in one transfer from each device."""
    groups: dict[tuple[torch.device, torch.dtype], dict[str, torch.Tensor]] = {}
    out: dict[str, float] = {}
    with torch.no_grad():
        for key, value in values:
            value = value if value.is_floating_point() else value.to(torch.float64)
            mean = value.reshape(()) if value.numel() == 1 else value.mean()
            groups.setdefault((value.device, value.dtype), {})[key] = mean
        for means in groups.values():
            numbers = torch.stack(list(means.values())).tolist()
            out.update(zip(means, map(float, numbers), strict=True))
    return out
