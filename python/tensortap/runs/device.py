"""Statistics of tensors in another device's memory, computed there by torch.

The same fields as the core gives for CPU tensors, by the same definitions, in a
handful of operations and one transfer.  TENSORTAP_DEVICE_PATH=1 sends CPU tensors
this way too, so that the two can be compared.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
import struct
from collections.abc import Generator
from itertools import islice
from typing import Any

from tensortap import _core

NAN = math.nan
Numbers = tuple[list[Any], list[Any]]  # whole numbers and floats: tensors first, numbers then
Work = Generator[Numbers, Numbers, list[Any]]  # gives tensors, takes their values, ends


def stats(t: Any, nan_policy: str = "omit") -> _core.Stats:
    """Compute the statistics of a dense tensor where it lies."""
    pending = Pending(t)
    whole: list[int] = [] if pending.packed is None else pending.packed.cpu().tolist()
    return pending.finish(whole, nan_policy)


class Pending:
    """Statistics that are being computed: the numbers are still on their device."""

    def __init__(self, t: Any) -> None:
        """Start them; nothing here waits for the device."""
        import torch

        with torch.no_grad():
            t = t.detach()
            self.dtype = str(t.dtype).removeprefix("torch.")
            self.shape = tuple(t.shape)
            self.packed: Any = None  # one row of 64-bit numbers: floats travel as their bits
            if t.numel() == 0:
                return
            kind = (
                _complex if t.dtype.is_complex else _real if t.dtype.is_floating_point else _integer
            )
            self._work: Work = kind(torch, t)
            ints, floats = next(self._work)
            self._ints, self._is_wide = len(ints), floats[0].dtype == torch.float64
            bits = torch.stack(floats).view(torch.int64 if self._is_wide else torch.int32)
            self.packed = torch.cat(
                [torch.stack([x.to(torch.int64) for x in ints]), bits.to(torch.int64)]
            )

    def finish(self, whole: list[int], nan_policy: str = "omit") -> _core.Stats:
        """Make the Stats of the numbers that were packed, as Python ints."""
        values: list[Any] = [0] * 5 + [NAN, NAN, NAN, 0.0, NAN, 0.0, 0.0, 0.0, 0.0] + [0] * 4
        if self.packed is not None:
            raw = whole[self._ints :]
            form, bits = ("d", "q") if self._is_wide else ("f", "i")
            floats = struct.unpack(f"<{len(raw)}{form}", struct.pack(f"<{len(raw)}{bits}", *raw))
            try:
                self._work.send((whole[: self._ints], list(floats)))
            except StopIteration as done:
                values = done.value
        numbers = (*values, 2 if nan_policy == "propagate" else 0)
        return _core._stats_from(self.dtype, self.shape, numbers)


class Batch:
    """Statistics of many tensors, fetched in one transfer from each device."""

    def __init__(self) -> None:
        """Begin with none."""
        self._waiting: list[tuple[Any, Pending]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, t: Any, tag: Any) -> None:
        """Start the statistics of a tensor, to be known by its tag."""
        self._waiting.append((tag, Pending(t)))

    def fetch(self) -> list[tuple[Any, _core.Stats]]:
        """Wait for all, and give (tag, stats) in the order they were added."""
        if not self._waiting:
            return []
        import torch

        waiting, self._waiting = self._waiting, []
        rows: dict[Any, list[Any]] = {}
        for _, pending in waiting:
            if pending.packed is not None:
                rows.setdefault(pending.packed.device, []).append(pending.packed)
        numbers = {
            device: iter(torch.cat(packed).cpu().tolist()) for device, packed in rows.items()
        }
        out = []
        for tag, pending in waiting:
            packed = pending.packed
            whole = [] if packed is None else list(islice(numbers[packed.device], len(packed)))
            out.append((tag, pending.finish(whole)))
        return out


def _wide(torch: Any, t: Any) -> Any:
    """Give the dtype to accumulate in: f64 wherever the device has it."""
    return torch.float32 if t.device.type == "mps" else torch.float64


def _moments(torch: Any, x: Any, finite: Any) -> list[Any]:
    """Give min, max, sum, m2, l1 and sumsq of the finite values, on the device."""
    inf = math.inf
    y = torch.where(finite, x, 0)
    count = finite.sum().clamp(min=1)
    mean = y.sum() / count
    off = torch.where(finite, x - mean, 0)
    return [
        torch.where(finite, x, inf).amin(),
        torch.where(finite, x, -inf).amax(),
        y.sum(),
        (off * off).sum(),
        y.abs().sum(),
        (y * y).sum(),
    ]


def _real(torch: Any, t: Any) -> Work:
    if t.element_size() == 1:
        t = t.to(torch.float32)  # torch computes nothing in fp8
    x = t.to(_wide(torch, t))
    finite = torch.isfinite(x)
    counts = [
        torch.isnan(x).sum(),
        torch.isposinf(x).sum(),
        torch.isneginf(x).sum(),
        (x == 0).sum(),
    ]
    count, moments = t.numel(), _moments(torch, x, finite)
    del t, x, finite  # the numbers may be fetched much later
    ints, floats = yield counts, moments
    return _finish(count, ints, floats, floats[2], 0.0)


def _complex(torch: Any, t: Any) -> Work:
    parts = torch.view_as_real(t.resolve_conj()).to(_wide(torch, t))
    real, imag = parts.unbind(-1)
    size = torch.where(torch.isnan(real) | torch.isnan(imag), math.nan, torch.hypot(real, imag))
    finite = torch.isfinite(size)
    counts = [torch.isnan(size).sum(), torch.isposinf(size).sum(), (size == 0).sum()]
    sums = [torch.where(finite, part, 0).sum() for part in (real, imag)]
    count, moments = t.numel(), _moments(torch, size, finite) + sums
    del t, parts, real, imag, size, finite
    ints, floats = yield counts, moments
    nan, posinf, zeros = ints
    return _finish(count, [nan, posinf, 0, zeros], floats, floats[6], floats[7])


def _finish(
    count: int, ints: list[int], floats: list[float], total: float, total_imag: float
) -> list[Any]:
    nan, posinf, neginf, zeros = ints
    low, high, _, m2, l1, sumsq = floats[:6]
    finite = count - nan - posinf - neginf
    if finite == 0:
        low = high = absmax = mean = NAN
    else:
        absmax = max(abs(low), abs(high))
        mean = total / finite
    head = [count, nan, posinf, neginf, zeros]
    return [*head, low, high, absmax, total, mean, m2, l1, sumsq, total_imag, 0, 0, 0, 0]


def _integer(torch: Any, t: Any) -> Work:
    """Sum 64-bit integers exactly: halves of 32 bits cannot overflow."""
    is_unsigned = t.dtype == torch.uint64
    x = t.view(torch.int64) if is_unsigned else t.to(torch.int64)
    low_half = x & 0xFFFFFFFF
    high_half = (x >> 32) & 0xFFFFFFFF if is_unsigned else x >> 32
    flip = -(2**63) if is_unsigned else 0  # unsigned order as signed order
    wide = _wide(torch, t)
    value = high_half.to(wide) * 2.0**32 + low_half.to(wide)
    counts = [
        (x == 0).sum(),
        (x ^ flip).amin(),
        (x ^ flip).amax(),
        low_half.sum(),
        high_half.sum(),
    ]
    moments = _moments(torch, value, torch.ones_like(x, dtype=torch.bool))
    count = t.numel()
    del t, x, low_half, high_half, value
    ints, floats = yield counts, moments
    zeros, least, most, low_sum, high_sum = ints
    if is_unsigned:
        least, most = (least ^ flip) % 2**64, (most ^ flip) % 2**64
    total = high_sum * 2**32 + low_sum
    low, high = float(least), float(most)
    mean = float(total) / count
    head = [count, 0, 0, 0, zeros]
    _, _, _, m2, l1, sumsq = floats
    absmax = max(abs(low), abs(high))
    exact = [least, most, total, total >> 64]
    return [*head, low, high, absmax, float(total), mean, m2, l1, sumsq, 0.0, *exact]
