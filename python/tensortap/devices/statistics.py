"""Start the statistics of tensors in a device's memory, and read the numbers later.

Where Triton runs (CUDA, ROCm, XPU) two kernels read a tensor and write one slot of a ring in the
device's memory.  The ring is copied to the host once in a step, and read one step later, so that
nobody waits for the device.  Elsewhere (MPS, complex numbers) the tensor itself is copied and
the core reads the copy.

TENSORTAP_DEVICE_PATH=1 sends CPU tensors this way too, so that it can be compared with the core:
through the kernels if TRITON_INTERPRET=1 is set, else through copies.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

from tensortap import _core
from tensortap.devices.event import Event
from tensortap.devices.ring import KINDS, Layout, Result, Ring
from tensortap.files.locks import make_lock

SLOTS = 8  # of the ring for each site: with 16 words each, 1 kB
MOST_WAITING = 1 << 16  # statistics that nobody has fetched
MOST_COPIED = 1 << 26  # bytes of copied tensors that wait for somebody to read them


@functools.cache
def _has_triton(kind: str) -> bool:
    """Return whether kernels run on devices of this kind."""
    is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return importlib.util.find_spec("triton") is not None and (
        kind in ("cuda", "xpu") or (kind == "cpu" and is_interpreted)
    )


Waiting = tuple[int, Any, Any, bool]  # number, tag, tensor, whether its histogram is wanted


class Copies:
    """Tensors of one device that the core reads on the host."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._waiting: list[Waiting] = []
        self._copied: list[tuple[list[Waiting], Event]] = []
        self._done: list[Result] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._done) + sum(len(w) for w, _ in self._copied)

    def add(self, t: Any, number: int, tag: Any, *, wants_histogram: bool) -> None:
        """Start the copy of one tensor."""
        import torch

        if t.is_conj() or t.is_neg():
            t = t.resolve_conj().resolve_neg()
        host = t.to("cpu", non_blocking=True, copy=True, memory_format=torch.preserve_format)
        self._waiting.append((number, tag, host, wants_histogram))
        self._bytes += host.numel() * host.element_size()
        if self._bytes > MOST_COPIED:
            self.copy()
            self._done = self.take(waits=True)

    def copy(self, _step: int | None = None) -> bool:
        """Begin another step; return whether this one has copied anything."""
        if not self._waiting:
            return False
        self._copied.append((self._waiting, Event(self.device)))
        self._waiting, self._bytes = [], 0
        return True

    def take(self, *, waits: bool) -> list[Result]:
        """Return what was copied before the last step began; with *waits* everything."""
        ready = self._copied if waits else self._copied[:-1]
        self._copied = self._copied[len(ready) :]
        out, self._done = self._done, []
        for waiting, event in ready:
            event.wait()
            for number, tag, t, wants_histogram in waiting:
                made = _core.histogram(t) if wants_histogram else None
                out.append(Result(number, tag, _core._stats_here(t), histogram=made))
        return out


class Batch:
    """Statistics of many tensors, copied from each device together."""

    def __init__(self, sites: int = 1) -> None:
        """Begin with none; *sites*: how many tensors a step has, about."""
        self._room = SLOTS * max(sites, 8)
        self._rings: dict[Any, Ring] = {}
        self._copies: dict[Any, Copies] = {}
        self._number = 0
        self._held: list[tuple[int, Any, Any, Layout]] | None = None
        self._lock = make_lock()

    def __len__(self) -> int:
        return sum(len(one) for one in self._all())

    def _all(self) -> list[Ring | Copies]:
        return [*self._rings.values(), *self._copies.values()]

    @property
    def lost(self) -> int:
        """Return how many statistics replays of a captured graph overwrote."""
        return sum(ring.lost for ring in self._rings.values())

    def add(self, t: Any, tag: Any, *, wants_histogram: bool = False) -> None:
        """Start the statistics of a tensor, to be known by its tag; nothing waits."""
        import torch

        with self._lock, torch.no_grad():
            self._number += 1
            layout = None
            is_lazy = t.is_conj() or t.is_neg()
            if not is_lazy and t.numel() > 0 and _has_triton(t.device.type):
                layout = Layout.of(t) if str(t.dtype).removeprefix("torch.") in KINDS else None
            if layout is None:
                copies = self._copies_of(t.device)
                copies.add(t, self._number, tag, wants_histogram=wants_histogram)
            elif self._held is not None and not layout.sizes and not wants_histogram:
                self._held.append((self._number, tag, t, layout))
            else:
                ring = self._ring_of(t.device)
                ring.add(t, layout, self._number, tag, wants_histogram=wants_histogram)

    def _ring_of(self, device: Any) -> Ring:
        if device not in self._rings:
            self._rings[device] = Ring(device, self._room)
        return self._rings[device]

    def _copies_of(self, device: Any) -> Copies:
        if device not in self._copies:
            self._copies[device] = Copies(device)
        return self._copies[device]

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Start everything that is added inside with one launch for each type."""
        with self._lock:
            self._held, before = [], self._held
            try:
                yield
            finally:
                held, self._held = self._held, before
                self._start(held)

    def _start(self, held: list[tuple[int, Any, Any, Layout]]) -> None:
        groups: dict[Any, list[tuple[int, Any, Any, Layout]]] = {}
        for one in held:
            t, layout = one[2:]
            groups.setdefault((t.device, str(t.dtype), layout.is_aligned), []).append(one)
        for (device, dtype, _), work in groups.items():
            ring = self._ring_of(device)
            for at in range(0, len(work), ring.room):
                numbered = []  # consecutive, as the kernel counts them
                for _, *rest in work[at : at + ring.room]:
                    self._number += 1
                    numbered.append((self._number, *rest))
                ring.add_many(dtype.removeprefix("torch."), numbered)

    def fetch(self, *, waits: bool = True, step: int | None = None) -> list[Result]:
        """Return results in the order of add().

        Without *waits* they are those of the call before: their copies have arrived.  What replays
        of a captured graph have computed since then belongs to this *step*, and comes first.
        """
        with self._lock:
            out: list[Result] = []
            for one in self._all():
                is_copied = one.copy(step)
                out += one.take(waits=waits or not is_copied)
            out.sort(key=lambda result: result.number)
            return out


def stats(t: Any, nan_policy: str = "omit") -> _core.Stats:
    """Compute the statistics of a dense tensor where it lies, and wait for them."""
    batch = Batch()
    batch.add(t, None)
    found = batch.fetch()[0].stats
    if nan_policy == "omit":
        return found
    parts: Any = found.__reduce__()[1]
    return _core._stats_from(parts[0], parts[1], (*parts[2][:-1], 2))


# ---- what probes inside compiled graphs have started, for whoever wants it

Take = Callable[[Result], object]

_probed = Batch(sites=128)
_takers: dict[int, list[Take]] = {}
_numbers = itertools.count(1)


def start(t: Any, wants_histogram: bool) -> int:
    """Start the statistics of a tensor; return a number that stands for them."""
    if len(_probed) >= MOST_WAITING:  # no step ever ends: an evaluation
        deliver(waits=False)
    number = next(_numbers)
    _takers[number] = []
    _probed.add(t, number, wants_histogram=wants_histogram)
    return number


def call_with(number: int, take: Take) -> None:
    """Call *take* with the result of this number when it is there."""
    if number in _takers:
        _takers[number].append(take)


def deliver(*, waits: bool, step: int | None = None) -> None:
    """Deliver the results that have arrived to those who asked for them."""
    for result in _probed.fetch(waits=waits, step=step):
        is_last = result.step is None  # a graph may be replayed again
        for take in _takers.pop(result.tag, ()) if is_last else _takers.get(result.tag, ()):
            take(result)
