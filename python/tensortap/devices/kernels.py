"""Triton kernels: the statistics of tensors in a device's memory, each element read once.

`read_tiles` runs many programs for each tensor.  A program reads every G-th tile of its tensor and
writes one row; `write_slots` merges the rows of a tensor into its slot.  A row and a slot are
16 words of 64 bits, which `ring.py` decodes.

Sums are f32 (f64 only for f64 elements).  A tile is summed as a tree around its own mean; the sums
of tiles are pairs of floats whose sum has twice the digits.  They are sums of
x * 2^-exponent, where the exponent follows the largest element: then squares neither overflow
nor underflow.
SPDX-License-Identifier: Apache-2.0
"""
# mypy: ignore-errors
# ruff: noqa: SIM109  (constants of Triton know == only)

from __future__ import annotations

import triton
import triton.language as tl

# What the elements are: how to read them.
FLOAT, WIDE_FLOAT, SIGNED, UNSIGNED = map(tl.constexpr, range(4))
BFLOAT, E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ = map(tl.constexpr, range(4, 9))
SIZES = (8, 16, 32, 64)
TYPES = {f"{kind}{n}": getattr(tl, f"{kind}{n}") for kind in ("int", "uint") for n in SIZES}
TYPES |= {"float16": tl.float16, "float32": tl.float32, "float64": tl.float64}
WORDS = tl.constexpr(16)
NARROW = tl.constexpr(2048)  # bins of f32: NARROW_BINS in ring.py
LEAST = tl.constexpr(-126)  # exponent of a tile of zeros
NUMBERS = ["x", "n", "size1", "size2", "size3", "stride0", "stride1", "stride2", "stride3"]


@triton.jit
def power(exponent, is_wide: tl.constexpr):
    """Return 2**exponent exactly; 0 below the least normal number."""
    if is_wide:
        bits = tl.where(exponent < -1022, 0, exponent + 1023).to(tl.int64) << 52
        value = bits.to(tl.float64, bitcast=True)
    else:
        bits = tl.where(exponent < -126, 0, exponent + 127).to(tl.int32) << 23
        value = bits.to(tl.float32, bitcast=True)
    return value


@triton.jit
def exponent_of(size, is_wide: tl.constexpr):
    """Return the exponent by which numbers of at most this size are divided."""
    if is_wide:
        found = (size.to(tl.int64, bitcast=True) >> 52).to(tl.int32) - 1023
        found = tl.minimum(tl.maximum(found, -1022), 1022)
    else:
        found = (size.to(tl.int32, bitcast=True) >> 23) - 127
        found = tl.minimum(tl.maximum(found, -126), 126)
    return found


@triton.jit
def add_pairs(high, low, other, other_low):
    """Add two numbers that are each the sum of two floats (Knuth's two-sum)."""
    total = high + other
    back = total - high
    lost = (high - (total - back)) + (other - back)
    low = low + other_low + lost
    rounded = total + low
    return rounded, low - (rounded - total)


@triton.jit
def merge(
    e, n, mean, mean_low, m2, m2_low, sum_, sum_low, l1, l1_low, sq, sq_low,
    e2, n2, mean2, mean_low2, m22, m2_low2, sum2, sum_low2, l12, l1_low2, sq2, sq_low2,
):  # fmt: skip
    """Merge the sums of two sets of elements, by Chan's formula, at the larger exponent."""
    is_wide: tl.constexpr = m2.dtype == tl.float64
    most = tl.maximum(e, e2)
    a, b = power(e - most, is_wide), power(e2 - most, is_wide)
    sum_, sum_low = add_pairs(sum_ * a, sum_low * a, sum2 * b, sum_low2 * b)
    l1, l1_low = add_pairs(l1 * a, l1_low * a, l12 * b, l1_low2 * b)
    sq, sq_low = add_pairs(sq * a * a, sq_low * a * a, sq2 * b * b, sq_low2 * b * b)
    off, off_low = add_pairs(mean2 * b, mean_low2 * b, -mean * a, -mean_low * a)
    count = n + n2
    share = n2 / tl.maximum(count, 1.0)
    between = (off + off_low) * (off + off_low) * (n * share)
    m2, m2_low = add_pairs(m2 * a * a, m2_low * a * a, m22 * b * b, m2_low2 * b * b)
    m2, m2_low = add_pairs(m2, m2_low, between, between * 0)
    mean, mean_low = add_pairs(mean * a, mean_low * a, off * share, off_low * share)
    return most, count, mean, mean_low, m2, m2_low, sum_, sum_low, l1, l1_low, sq, sq_low


@triton.jit
def join(high, low):
    """Return the bits of a pair as one word; the low half of f64 is dropped."""
    if high.dtype == tl.float64:
        word = high.to(tl.int64, bitcast=True)
    else:
        below = low.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
        word = (high.to(tl.int32, bitcast=True).to(tl.int64) << 32) | below
    return word


@triton.jit
def split(word, is_wide: tl.constexpr):
    """Undo join()."""
    if is_wide:
        high = word.to(tl.float64, bitcast=True)
        low = high * 0
    else:
        high = (word >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        low = word.to(tl.int32).to(tl.float32, bitcast=True)
    return high, low


@triton.jit
def from_fp8(raw, KIND: tl.constexpr):
    """Return fp8 as f32: its bits are those of an f16 whose exponent is off by a constant."""
    bits = raw.to(tl.int16)
    size = bits & 0x7F
    is_negative = (bits & 0x80) != 0
    if KIND == E5M2:
        value = (size << 8).to(tl.float16, bitcast=True).to(tl.float32)
    elif KIND == E4M3FN:
        value = (size << 7).to(tl.float16, bitcast=True).to(tl.float32) * 256.0
        value = tl.where(size == 0x7F, float("nan"), value)
    elif KIND == E4M3FNUZ:
        value = (size << 7).to(tl.float16, bitcast=True).to(tl.float32) * 128.0
        value = tl.where(is_negative & (size == 0), float("nan"), value)
    else:
        value = (size << 8).to(tl.float16, bitcast=True).to(tl.float32) * 0.5
        top = (1.0 + (size & 3).to(tl.float32) * 0.25) * 32768.0  # where f16 has Inf and NaN
        value = tl.where(size >= 0x7C, top, value)
        value = tl.where(is_negative & (size == 0), float("nan"), value)
    return tl.where(is_negative, -value, value)


@triton.jit
def read(at, live, KIND: tl.constexpr):
    """Load elements as f32, f64 or i64; exactly."""
    raw = tl.load(at, mask=live, other=0)
    if KIND == FLOAT:
        value = raw.to(tl.float32)
    elif KIND == WIDE_FLOAT:
        value = raw
    elif KIND == SIGNED or KIND == UNSIGNED:
        value = raw.to(tl.int64)
    elif KIND == BFLOAT:
        value = (raw.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    else:
        value = from_fp8(raw, KIND)
    return value


@triton.jit
def to_float(value, KIND: tl.constexpr):
    """Return integers of 64 bits as f32."""
    if KIND == UNSIGNED:
        number = value.to(tl.uint64, bitcast=True).to(tl.float32)
    else:
        number = value.to(tl.float32)
    return number


@triton.jit
def count_exactly(value, live, bins, KIND: tl.constexpr):
    """Count f64 and integers, which are rare, one by one: by the highest 14 bits as f64."""
    if KIND == UNSIGNED:
        exact = value.to(tl.uint64, bitcast=True).to(tl.float64)
    else:
        exact = value.to(tl.float64)
    one = tl.full(value.shape, 1, tl.int64)
    bin = (exact.to(tl.int64, bitcast=True) >> 50) & 0x3FFF
    is_counted = live & (value != 0) & (tl.abs(exact) < float("inf"))
    tl.atomic_add(bins + bin, one, mask=is_counted)


@triton.jit
def count_denormals(value, live, bins):
    """Count denormal f32, whose bins lie behind those of the others."""
    bits = value.to(tl.int32, bitcast=True)
    mantissa = bits & 0x7FFFFF
    is_denormal = live & ((bits & 0x7F800000) == 0) & (mantissa != 0)
    if tl.max(is_denormal.to(tl.int32), 0) > 0:
        normal = mantissa.to(tl.float32).to(tl.int32, bitcast=True)
        bin = NARROW + (normal >> 21) - 127 * 4 + tl.where(bits < 0, 128, 0)
        one = tl.full(value.shape, 1, tl.int64)
        tl.atomic_add(bins + bin, one, mask=is_denormal)


@triton.jit(do_not_specialize=NUMBERS)
def read_tiles(
    table, x, n, size1, size2, size3, stride0, stride1, stride2, stride3, rows, bins,
    KIND: tl.constexpr, TYPE: tl.constexpr, IS_TABLE: tl.constexpr, HAS_BINS: tl.constexpr,
    IS_ALIGNED: tl.constexpr, IS_STRIDED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Read the tiles of one tensor that are this program's, and write its row.

    Addresses are numbers: of `x`, or, if IS_TABLE, of the tensor that this line of the table names.
    If HAS_BINS, `bins` counts the elements as core/summary/hist.c does.
    """
    part, parts = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    line = tl.program_id(1).to(tl.int64)
    IS_INTEGER: tl.constexpr = KIND == SIGNED or KIND == UNSIGNED
    IS_WIDE: tl.constexpr = KIND == WIDE_FLOAT
    FLOATS: tl.constexpr = tl.float64 if IS_WIDE else tl.float32
    if IS_TABLE:
        x = tl.load(table + line * 2)
        n = tl.load(table + line * 2 + 1)
    first = x.to(tl.pointer_type(TYPE))
    if IS_ALIGNED:  # then 16 bytes are loaded at once
        first = tl.multiple_of(first, 16)
        n = tl.multiple_of(n, 16)
    inf = float("inf")
    zero = tl.full((), 0, FLOATS)
    none = tl.full((), 0, tl.int64)
    e = tl.full((), -1022 if IS_WIDE else LEAST, tl.int32)
    count, mean, mean_low, m2, m2_low = zero, zero, zero, zero, zero
    sum_, sum_low, l1, l1_low, sq, sq_low = zero, zero, zero, zero, zero, zero
    nans, posinfs, neginfs, zeros, low_sum, high_sum, origin = (
        none,
        none,
        none,
        none,
        none,
        none,
        none,
    )
    if IS_INTEGER:
        least = tl.full((), 2**63 - 1, tl.int64)
        most = tl.full((), -(2**63), tl.int64)
        flip = tl.full((), -(2**63) if KIND == UNSIGNED else 0, tl.int64)
        # Distances from one element are right where floats are too coarse for the elements.
        origin = read(first, n > 0, KIND)
    else:
        least = zero + inf
        most = zero - inf
    if HAS_BINS and not (IS_INTEGER or IS_WIDE):
        narrow = tl.zeros((NARROW,), tl.int32)
    tiles = tl.cdiv(n, TILE)
    for tile in range(part, tiles, parts):
        at = tile * TILE + tl.arange(0, TILE)
        live = at < n
        if IS_STRIDED:
            rest = at // size3
            rest2 = rest // size2
            at = (
                (at - rest * size3) * stride3 + (rest - rest2 * size2) * stride2
                + (rest2 % size1) * stride1 + (rest2 // size1) * stride0
            )  # fmt: skip
        value = read(first + at, live, KIND)
        if HAS_BINS and (IS_INTEGER or IS_WIDE):
            count_exactly(value, live, bins, KIND)
        elif HAS_BINS:
            narrow += tl.histogram((value.to(tl.int32, bitcast=True) >> 21) & 0x7FF, NARROW)
            count_denormals(value, live, bins)
        # Four counts in one sum, 16 bits each: a tile has fewer elements.
        counts = (live & (value == 0)).to(tl.int64)
        if IS_INTEGER:
            is_finite = live
            ordered = value ^ flip
            least = tl.minimum(least, tl.min(tl.where(live, ordered, 2**63 - 1), 0))
            most = tl.maximum(most, tl.max(tl.where(live, ordered, -(2**63)), 0))
            low_sum += tl.sum(value & 0xFFFFFFFF, 0)
            upper = value >> 32
            if KIND == UNSIGNED:
                upper = upper & 0xFFFFFFFF
            high_sum += tl.sum(upper, 0)
            number = to_float(value, KIND)
            off = number - to_float(origin, KIND)
            near = (value - origin).to(tl.float32)  # exact, unless it wraps around
            off = tl.where(tl.abs(off) < 4611686018427387904.0, near, off)
            off = tl.where(live, off, 0.0)
            extent = tl.max(tl.maximum(tl.abs(number), tl.abs(off)), 0)
        else:
            size = tl.abs(value)
            is_finite = live & (size < inf)
            counts += (value != value).to(tl.int64) << 16
            counts += ((value == inf).to(tl.int64) << 32) + ((value == -inf).to(tl.int64) << 48)
            low = tl.min(tl.where(is_finite, value, inf), 0)
            high = tl.max(tl.where(is_finite, value, -inf), 0)
            least, most = tl.minimum(least, low), tl.maximum(most, high)
            number = tl.where(is_finite, value, 0.0)
            off = number
            extent = tl.maximum(tl.maximum(-low, high), 0.0)
        counted = tl.sum(counts, 0)
        zeros += counted & 0xFFFF
        nan, posinf, neginf = (counted >> 16) & 0xFFFF, (counted >> 32) & 0xFFFF, counted >> 48
        nans += nan
        posinfs += posinf
        neginfs += neginf
        n2 = (tl.minimum(n - tile * TILE, TILE) - nan - posinf - neginf).to(FLOATS)
        e2 = exponent_of(extent, IS_WIDE)
        scale = power(-e2, IS_WIDE)
        number = number * scale
        off = off * scale
        total = tl.sum(number, 0)
        center = tl.sum(off, 0) / tl.maximum(n2, 1.0)
        away = tl.where(is_finite, off - center, 0.0)
        shift = tl.sum(away, 0)
        rest_of_mean = shift / tl.maximum(n2, 1.0)
        e, count, mean, mean_low, m2, m2_low, sum_, sum_low, l1, l1_low, sq, sq_low = merge(
            e, count, mean, mean_low, m2, m2_low, sum_, sum_low, l1, l1_low, sq, sq_low,
            e2, n2, center, rest_of_mean, tl.sum(away * away, 0) - shift * rest_of_mean, zero,
            total, zero, tl.sum(tl.abs(number), 0), zero, tl.sum(number * number, 0), zero,
        )  # fmt: skip
    if HAS_BINS and not (IS_INTEGER or IS_WIDE):
        tl.atomic_add(bins + tl.arange(0, NARROW), narrow.to(tl.int64), mask=narrow > 0)
    row = rows + (line * parts + part) * WORDS
    tl.store(row + 1, e.to(tl.int64))
    tl.store(row + 2, count.to(tl.int64))
    tl.store(row + 3, nans)
    tl.store(row + 4, posinfs)
    tl.store(row + 5, neginfs)
    tl.store(row + 6, zeros)
    if IS_INTEGER:
        tl.store(row + 7, least)
        tl.store(row + 8, most)
        tl.store(row + 9, low_sum)
    else:
        tl.store(row + 7, join(least, zero))
        tl.store(row + 8, join(most, zero))
        tl.store(row + 9, join(sum_, sum_low))
    tl.store(row + 10, high_sum)
    tl.store(row + 11, origin)
    tl.store(row + 12, join(mean, mean_low))
    tl.store(row + 13, join(m2, m2_low))
    tl.store(row + 14, join(l1, l1_low))
    tl.store(row + 15, join(sq, sq_low))


@triton.jit(do_not_specialize=["room", "number"])
def write_slots(
    rows, slots, room, number, IS_INTEGER: tl.constexpr, IS_WIDE: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    """Merge the PARTS rows of each tensor into the next slot of the ring.

    The first word of `slots` counts the slots written; the ring of `room` slots begins behind
    the first. So a captured graph that is replayed fills one slot after the other.
    """
    line = tl.program_id(0).to(tl.int64)
    row = rows + (line * PARTS + tl.arange(0, PARTS)) * WORDS
    low_word, high_word, sum_word = tl.load(row + 7), tl.load(row + 8), tl.load(row + 9)
    n = tl.load(row + 2).to(tl.float64 if IS_WIDE else tl.float32)
    mean, mean_low = split(tl.load(row + 12), IS_WIDE)
    m2, m2_low = split(tl.load(row + 13), IS_WIDE)
    l1, l1_low = split(tl.load(row + 14), IS_WIDE)
    sq, sq_low = split(tl.load(row + 15), IS_WIDE)
    if IS_INTEGER:
        sum_, sum_low = n * 0, n * 0
    else:
        sum_, sum_low = split(sum_word, IS_WIDE)
    e, n, mean, mean_low, m2, m2_low, sum_, sum_low, l1, l1_low, sq, sq_low = tl.reduce(
        (
            tl.load(row + 1).to(tl.int32),
            n, mean, mean_low, m2, m2_low, sum_, sum_low, l1, l1_low, sq, sq_low,
        ), 0, merge,
    )  # fmt: skip
    slot = slots + (1 + tl.atomic_add(slots, 1) % room) * WORDS
    tl.store(slot, number + line)
    tl.store(slot + 1, e.to(tl.int64))
    for word in tl.static_range(2, 7):
        tl.store(slot + word, tl.sum(tl.load(row + word), 0))
    if IS_INTEGER:
        tl.store(slot + 7, tl.min(low_word, 0))
        tl.store(slot + 8, tl.max(high_word, 0))
        tl.store(slot + 9, tl.sum(sum_word, 0))
    else:
        least, _ = split(low_word, IS_WIDE)
        most, _ = split(high_word, IS_WIDE)
        tl.store(slot + 7, join(tl.min(least, 0), l1 * 0))
        tl.store(slot + 8, join(tl.max(most, 0), l1 * 0))
        tl.store(slot + 9, join(sum_, sum_low))
    tl.store(slot + 10, tl.sum(tl.load(row + 10), 0))
    tl.store(slot + 11, tl.load(rows + line * PARTS * WORDS + 11))
    tl.store(slot + 12, join(mean, mean_low))
    tl.store(slot + 13, join(m2, m2_low))
    tl.store(slot + 14, join(l1, l1_low))
    tl.store(slot + 15, join(sq, sq_low))
