"""What users' functions returned, and what C counted, until the step ends.

Results are kept as they are: reading a number off a device makes the program wait for it.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from tensortap import _core
from tensortap.devices import statistics
from tensortap.monitor.storage import StorageManager


class Results:
    """Everything measured in this step that is not yet in the storage."""

    def __init__(self, core: _core.Metrics) -> None:
        self.core = core
        self.histograms: dict[str, _core.Histogram] = {}  # of the latest step
        self.keys: list[str] = []  # of what users' functions returned ...
        self.values: list[Any] = []  # ... numbers, and tensors still to be read
        self.batch = statistics.Batch()  # of named metrics of other devices' tensors
        self.undefined: set[str] = set()  # keys that are NaN in the latest step by definition

    def drop(self) -> None:
        """Forget what was measured in this step."""
        self.batch = statistics.Batch()
        self.core.collect({}, False)
        self.keys, self.values = [], []

    def drain(self, storage: StorageManager, step: int | None) -> None:
        """Put what C holds into the storage, to be aggregated with what comes."""
        self._take_batch()
        for key, values in self.core.collect(None, False):
            if step is not None:
                storage.log_tensor(step, key, torch.tensor(values, dtype=torch.float64))

    def _take_batch(self) -> None:
        statistics.deliver(waits=True)
        for result in self.batch.fetch():
            self.core.add_stats(result.tag, result.stats, result.histogram)

    def store(self, storage: StorageManager, step: int, *, keeps: bool = False) -> None:
        """Put everything into the storage, as numbers; *keeps*: it is read before the end."""
        entry = storage.log_dict.get(step)
        keys, values = self.keys, self.values
        if not keeps:
            self.keys, self.values = [], []
        self._take_batch()
        if entry is None:  # not monitored, or cleared in the middle
            if not keeps:
                self.core.collect({}, False)
            return
        if not keeps:
            self.histograms = self.core.histograms()
            self.undefined.clear()
        later = storage.unaggregated(step)
        for key, several in self.core.collect(entry, keeps, self.undefined):
            storage.log_tensor(step, key, torch.tensor(several, dtype=torch.float64))
            later.append(key)
        later += self._store_own(storage, step, keys, values)
        storage.aggregate_keys(step, later)

    def _store_own(
        self, storage: StorageManager, step: int, keys: list[str], values: list[Any]
    ) -> list[str]:
        """Store what users' functions returned; return the keys that are to be aggregated."""
        if not keys:
            return []
        entry = storage.log_dict[step]
        held = {*entry, *storage.aggregation_fns}
        several = {key for key, count in Counter(keys).items() if count > 1}
        later = []
        numbers = self.core.numbers(values)  # None: of several elements, or on another device
        for key, number, value in zip(keys, numbers, values, strict=True):
            if number is not None and key not in held and key not in several:
                entry[key] = number
                continue
            later.append(key)
            if isinstance(value, torch.Tensor):
                storage.log_tensor(step, key, value)
            else:
                storage.log_scalar(step, key, value)
        return later

    def preview(self, storage: StorageManager, step: int) -> dict[str, float]:
        """Return the metrics as if the step ended now."""
        entry = storage.log_dict.get(step)
        if entry is None:
            return {}
        scratch = storage.copy_of(step)
        self.store(scratch, step, keeps=True)
        return scratch.log_dict[step]
