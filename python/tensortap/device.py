"""Statistics of tensors in another device's memory, computed there by torch.

The same fields as the core gives for CPU tensors, by the same definitions, in a
handful of operations and one transfer.  TENSORTAP_DEVICE_PATH=1 sends CPU tensors
this way too, so that the two can be compared.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
import struct
from typing import Any

from tensortap import _core

NAN = math.nan


def stats(t: Any, nan_policy: str = "omit") -> _core.Stats:
    """Compute the statistics of a dense tensor where it lies."""
    import torch

    with torch.no_grad():
        t = t.detach()
        dtype = str(t.dtype).removeprefix("torch.")
        if t.numel() == 0:
            values = [0] * 5 + [NAN, NAN, NAN, 0.0, NAN, 0.0, 0.0, 0.0, 0.0] + [0, 0, 0]
        elif t.dtype.is_complex:
            values = _complex(torch, t)
        elif t.dtype.is_floating_point:
            values = _real(torch, t)
        else:
            values = _integer(torch, t)
    numbers = (*values, 2 if nan_policy == "propagate" else 0)
    return _core._stats_from(dtype, tuple(t.shape), numbers)


def _wide(torch: Any, t: Any) -> Any:
    """Give the dtype to accumulate in: f64 wherever the device has it."""
    return torch.float32 if t.device.type == "mps" else torch.float64


def _fetch(torch: Any, ints: list[Any], floats: list[Any]) -> tuple[list[int], list[float]]:
    """Bring all numbers over in one transfer: floats travel as the bits they are."""
    packed = torch.stack([x.to(torch.int64) for x in ints])
    if floats:
        bits = torch.stack(floats)
        is_wide = bits.dtype == torch.float64
        bits = bits.view(torch.int64 if is_wide else torch.int32).to(torch.int64)
        packed = torch.cat([packed, bits])
    whole: list[int] = packed.cpu().tolist()
    raw = whole[len(ints) :]
    if floats and not is_wide:
        return whole[: len(ints)], [struct.unpack("<f", struct.pack("<i", x))[0] for x in raw]
    return whole[: len(ints)], list(
        struct.unpack(f"<{len(raw)}d", struct.pack(f"<{len(raw)}q", *raw))
    )


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


def _real(torch: Any, t: Any) -> list[Any]:
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
    ints, floats = _fetch(torch, counts, _moments(torch, x, finite))
    return _finish(t.numel(), ints, floats, floats[2], 0.0)


def _complex(torch: Any, t: Any) -> list[Any]:
    parts = torch.view_as_real(t.resolve_conj()).to(_wide(torch, t))
    real, imag = parts.unbind(-1)
    size = torch.where(torch.isnan(real) | torch.isnan(imag), math.nan, torch.hypot(real, imag))
    finite = torch.isfinite(size)
    counts = [torch.isnan(size).sum(), torch.isposinf(size).sum(), (size == 0).sum()]
    sums = [torch.where(finite, part, 0).sum() for part in (real, imag)]
    ints, floats = _fetch(torch, counts, _moments(torch, size, finite) + sums)
    nan, posinf, zeros = ints
    return _finish(t.numel(), [nan, posinf, 0, zeros], floats, floats[6], floats[7])


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
    return [*head, low, high, absmax, total, mean, m2, l1, sumsq, total_imag, 0, 0, 0]


def _integer(torch: Any, t: Any) -> list[Any]:
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
    ints, floats = _fetch(
        torch, counts, _moments(torch, value, torch.ones_like(x, dtype=torch.bool))
    )
    zeros, least, most, low_sum, high_sum = ints
    if is_unsigned:
        least, most = (least ^ flip) % 2**64, (most ^ flip) % 2**64
    total = high_sum * 2**32 + low_sum
    count = t.numel()
    low, high = float(least), float(most)
    mean = float(total) / count
    head = [count, 0, 0, 0, zeros]
    _, _, _, m2, l1, sumsq = floats
    absmax = max(abs(low), abs(high))
    return [*head, low, high, absmax, float(total), mean, m2, l1, sumsq, 0.0, least, most, total]
