"""The ring of slots in one device's memory, which the kernels fill.

A slot is 16 words of 64 bits: number of the tensor, exponent, count of finite elements, NaN, Inf,
-Inf, zeros, min, max, sum (integers: of the lower halves), sum of the upper halves, one element
(integers), mean, m2, sum of |x|, sum of x².  Floats are f64, or the sum of two f32 in one word.
The sums are of x * 2^-exponent.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import math
import struct
from typing import Any, NamedTuple

from tensortap import _core
from tensortap.devices.event import Event, is_capturing

WORDS = 16  # of 64 bits, in a slot
TILE = 4096  # elements that a program of the kernel reads at once
PARTS = 256  # programs for one tensor at most ...
PARTS_OF_TABLE = 64  # ... and for each of many
WARPS = 8
ALL_BINS = 1 << 14  # of a histogram: sign, exponent and two bits of mantissa as f64
NARROW_BINS = 1 << 11  # the same as f32 ...
DENORMAL_BINS = (
    1 << 8
)  # ... and behind them those of its denormals: sign, and as if they were normal
TIMED = 16  # one launch in so many is timed on the device, as RECORDER_SAMPLES of runs
NAN = math.nan
# What the elements are, as in kernels.py.
FLOAT, WIDE_FLOAT, SIGNED, UNSIGNED, BFLOAT, E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ = range(9)
EXACT = (WIDE_FLOAT, SIGNED, UNSIGNED)  # have more digits or a wider range than f32
KINDS = {  # name of a dtype -> kind, and Triton's name of what is loaded
    "float16": (FLOAT, "float16"),
    "bfloat16": (BFLOAT, "uint16"),
    "float32": (FLOAT, "float32"),
    "float64": (WIDE_FLOAT, "float64"),
    "int8": (SIGNED, "int8"),
    "int16": (SIGNED, "int16"),
    "int32": (SIGNED, "int32"),
    "int64": (SIGNED, "int64"),
    "bool": (UNSIGNED, "uint8"),
    "uint8": (UNSIGNED, "uint8"),
    "uint16": (UNSIGNED, "uint16"),
    "uint32": (UNSIGNED, "uint32"),
    "uint64": (UNSIGNED, "uint64"),
    "float8_e4m3fn": (E4M3FN, "uint8"),
    "float8_e5m2": (E5M2, "uint8"),
    "float8_e4m3fnuz": (E4M3FNUZ, "uint8"),
    "float8_e5m2fnuz": (E5M2FNUZ, "uint8"),
}


class Layout(NamedTuple):
    """How the elements of a tensor lie in memory, without what repeats itself."""

    address: int
    elements: int
    repeat: int  # how often each element read stands for one of the tensor
    sizes: tuple[int, ...]  # of the last three dimensions, where there is more than one
    strides: tuple[int, ...]  # of four

    @staticmethod
    def of(t: Any) -> Layout | None:
        """Return the layout of a tensor; None if it has more dimensions than a kernel takes."""
        dims = sorted(((s, n) for s, n in zip(t.stride(), t.shape, strict=True) if n != 1))
        repeat = math.prod(n for s, n in dims if s == 0)
        merged: list[tuple[int, int]] = []  # (stride, size), the innermost first
        for stride, size in dims:
            if stride == 0:
                continue
            if merged and merged[-1][0] * merged[-1][1] == stride:
                merged[-1] = (merged[-1][0], merged[-1][1] * size)
            else:
                merged.append((stride, size))
        count = math.prod(size for _, size in merged)
        if not merged or (len(merged) == 1 and merged[0][0] == 1):
            return Layout(t.data_ptr(), count, repeat, (), ())
        if len(merged) > 4:
            return None
        merged += [(0, 1)] * (4 - len(merged))
        strides, sizes = zip(*reversed(merged), strict=True)
        return Layout(t.data_ptr(), count, repeat, sizes[1:], strides)

    @property
    def is_aligned(self) -> bool:
        """Return whether the kernel may load 16 bytes at once."""
        return self.address % 16 == 0 and self.elements % 16 == 0


class Entry(NamedTuple):
    """What the number in a slot stands for."""

    tag: Any
    dtype: str
    shape: tuple[int, ...]
    repeat: int
    timing: tuple[Event, Event, float] | None  # begin, end, and this tensor's share

    def finish(self, words: list[int]) -> _core.Stats:
        """Return the statistics in a slot."""
        kind = KINDS[self.dtype][0]
        return _core._stats_from(self.dtype, self.shape, _numbers(words, kind, self))

    def cost(self) -> int:
        """Return the time on the device in ns; 0: it was not measured."""
        if self.timing is None:
            return 0
        begin, end, share = self.timing
        return int(begin.nanoseconds_to(end) * share)


def _float(word: int, is_wide: bool) -> float:
    """Return the number in a word: an f64, or the sum of two f32."""
    if is_wide:
        return float(struct.unpack("<d", struct.pack("<q", word))[0])
    low, high = struct.unpack("<ff", struct.pack("<q", word))
    return float(high + low)


def _numbers(words: list[int], kind: int, entry: Entry) -> tuple[Any, ...]:
    """Return the numbers of a Stats, in the order of `_stats_from`."""
    exponent, repeat = words[1], entry.repeat
    nan, posinf, neginf, zeros = (count * repeat for count in words[3:7])
    count = math.prod(entry.shape)
    finite = count - nan - posinf - neginf
    mean, m2, l1, sumsq = (_float(word, kind == WIDE_FLOAT) for word in words[12:16])
    m2, sumsq = (_ldexp(x * repeat, 2 * exponent) for x in (m2, sumsq))
    l1 = _ldexp(l1 * repeat, exponent)
    least: float
    if kind in (SIGNED, UNSIGNED):
        flip = -(2**63) if kind == UNSIGNED else 0
        whole = [word ^ flip for word in words[7:9]]
        if kind == UNSIGNED:
            whole = [word % 2**64 for word in whole]
        total = ((words[10] << 32) + words[9]) * repeat
        least, most = map(float, whole)
        mean, exact = total / count, (*whole, total & (2**64 - 1), total >> 64)
        sums: float = float(total)
    elif finite:
        least, most = (_float(word, kind == WIDE_FLOAT) for word in words[7:9])
        sums = _ldexp(_float(words[9], kind == WIDE_FLOAT) * repeat, exponent)
        mean = sums / finite if math.isfinite(sums) else _ldexp(mean, exponent)
        exact = (0, 0, 0, 0)
    else:
        least = most = mean = NAN
        sums, exact = 0.0, (0, 0, 0, 0)
    absmax = max(abs(least), abs(most))
    counts = (count, nan, posinf, neginf, zeros)
    return (*counts, least, most, absmax, sums, mean, m2, l1, sumsq, 0.0, *exact, 0)


def _ldexp(x: float, exponent: int) -> float:
    try:
        return math.ldexp(x, exponent)
    except OverflowError:
        return math.inf


def _histogram(counts: Any, repeat: int, stats: _core.Stats) -> _core.Histogram:
    """Return the histogram whose bins the kernel has counted."""
    pairs = [(NAN, stats.nan), (math.inf, stats.posinf), (-math.inf, stats.neginf)]
    pairs.append((0.0, stats.zeros))
    is_narrow = len(counts) < ALL_BINS
    for at in counts.nonzero().flatten().tolist():
        if not is_narrow:
            bits = (at << 50) | 1  # of an f64 in that bin
            value = struct.unpack("<d", struct.pack("<Q", bits))[0]
        elif at < NARROW_BINS:
            if at // 4 % 256 in (0, 255):  # zeros, denormals, NaN and Inf were counted elsewhere
                continue
            value = struct.unpack("<f", struct.pack("<I", at << 21))[0]
        else:
            below = at - NARROW_BINS
            value = math.ldexp(1 + below % 4 / 4, below % 128 // 4 - 149)
            value = -value if below >= DENORMAL_BINS // 2 else value
        pairs.append((value, int(counts[at]) * repeat))
    return _core._histogram_of(pairs)


class Result(NamedTuple):
    """What has become of one tensor."""

    number: int
    tag: Any
    stats: _core.Stats
    cost: int = 0  # ns on the device; 0: not measured
    histogram: _core.Histogram | None = None
    step: int | None = None  # in which a captured graph has computed it again; -1: not known


class Ring:
    """The slots of one device, and what is known about each number in them."""

    def __init__(self, device: Any, room: int) -> None:
        """Allocate the slots; more than *room* in a step are copied in several parts."""
        import torch

        self.device, self.room = device, room
        self._slots = torch.zeros((1 + room) * WORDS, dtype=torch.int64, device=device)
        self._known: dict[int, Entry] = {}
        self._captured: set[int] = set()  # numbers that replays of a graph write again
        self._read = 0  # slots that the host has read
        self._written = 0  # slots since the last copy, as far as the host knows
        self._copies: list[tuple[Any, dict[int, Any], Event]] = []
        self._bins: dict[int, Any] = {}  # number -> counts of a histogram
        self._steps: list[int | None] = []  # of the copies
        self._scratch: dict[
            Any, Any
        ] = {}  # stream -> rows; launches of one stream follow each other
        self._tables: dict[tuple[Any, ...], Any] = {}
        self._launches = 0
        self.lost = 0  # slots that replays overwrote before they were copied

    def __len__(self) -> int:
        return len(self._known)

    def add(
        self, t: Any, layout: Layout, number: int, tag: Any, *, wants_histogram: bool = False
    ) -> None:
        """Start the statistics of one tensor, and its histogram."""
        import torch

        dtype = str(t.dtype).removeprefix("torch.")
        parts = _parts(layout.elements, PARTS)
        begin = self._begin(1)
        bins = None
        if wants_histogram and not is_capturing(self.device):  # replays would count on
            size = ALL_BINS if KINDS[dtype][0] in EXACT else NARROW_BINS + DENORMAL_BINS
            bins = self._bins[number] = torch.zeros(size, dtype=torch.int64, device=self.device)
        self._launch(dtype, layout, None, 1, parts, number, bins)
        self._end(begin, [(number, tag, dtype, tuple(t.shape), layout)])

    def add_many(self, dtype: str, work: list[tuple[int, Any, Any, Layout]]) -> None:
        """Start the statistics of many tensors of one type, with numbers that follow each other."""
        import torch

        lines = tuple(x for _, _, _, layout in work for x in layout[:2])
        table = self._tables.pop(lines, None)
        if table is None:
            host = torch.tensor(lines, dtype=torch.int64, pin_memory=self.device.type != "cpu")
            table = host.to(self.device, non_blocking=True)
        while len(self._tables) > 8:
            self._tables.pop(next(iter(self._tables)))
        self._tables[lines] = table  # pointers of parameters stay the same
        parts = _parts(max(layout.elements for _, _, _, layout in work), PARTS_OF_TABLE)
        begin = self._begin(len(work))
        self._launch(dtype, work[0][3], table, len(work), parts, work[0][0])
        self._end(begin, [(n, tag, dtype, tuple(t.shape), at) for n, tag, t, at in work])

    def _begin(self, count: int) -> Event | None:
        if self._written + count > self.room:
            self.copy()
        self._written += count
        self._launches += 1
        is_timed = self._launches % TIMED == 1 and not is_capturing(self.device)
        return Event(self.device, is_timed=True) if is_timed else None

    def _end(self, begin: Event | None, work: list[tuple[Any, ...]]) -> None:
        end = Event(self.device, is_timed=True) if begin is not None else None
        total = sum(layout.elements for *_, layout in work)
        is_captured = is_capturing(self.device)
        for number, tag, dtype, shape, layout in work:
            timing = None
            if begin is not None and end is not None:
                timing = (begin, end, layout.elements / total)
            self._known[number] = Entry(tag, dtype, shape, layout.repeat, timing)
            if is_captured:
                self._captured.add(number)

    def _launch(
        self,
        dtype: str,
        layout: Layout,
        table: Any,
        lines: int,
        parts: int,
        number: int,
        bins: Any = None,
    ) -> None:
        import torch

        from tensortap.devices import kernels

        kind, loaded = KINDS[dtype]
        where: Any = contextlib.nullcontext()
        stream = None
        if self.device.type != "cpu":
            module = torch.get_device_module(self.device)
            where, stream = module.device(self.device), module.current_stream(self.device)
        rows = self._scratch.get(stream)
        if rows is None or rows.numel() < lines * parts * WORDS:
            rows = torch.empty(lines * parts * WORDS, dtype=torch.int64, device=self.device)
            self._scratch[stream] = rows
        sizes, strides = layout.sizes or (1, 1, 1), layout.strides or (0, 0, 0, 0)
        with where:
            kernels.read_tiles[(parts, lines)](
                table, layout.address, layout.elements, *sizes, *strides, rows, bins,
                KIND=kind, TYPE=kernels.TYPES[loaded], IS_TABLE=table is not None,
                HAS_BINS=bins is not None,
                IS_ALIGNED=layout.is_aligned, IS_STRIDED=bool(layout.sizes), TILE=TILE,
                num_warps=WARPS, enable_fp_fusion=False,
            )  # fmt: skip
            kernels.write_slots[(lines,)](
                rows, self._slots, self.room, number, IS_INTEGER=kind in (SIGNED, UNSIGNED),
                IS_WIDE=kind == WIDE_FLOAT, PARTS=parts, num_warps=WARPS, enable_fp_fusion=False,
            )  # fmt: skip

    def copy(self, step: int | None = None) -> bool:
        """Start the copy of the ring to the host; return whether there is anything to copy.

        The host does not see replays of a captured graph.  Those whose slots this copy is the first
        to have have run in this *step*.
        """
        import torch

        if not self._written and not self._captured:
            return False
        self._steps = [*self._steps, None]
        if step is not None:  # also of copies that were made because the ring was full
            self._steps = [step if one is None else one for one in self._steps]
        if self.device.type != "cpu":
            current = torch.get_device_module(self.device).current_stream(self.device)
            for stream in self._scratch:
                if stream != current:
                    current.wait_stream(stream)
        bins = {number: self._to_host(counts) for number, counts in self._bins.items()}
        self._copies.append((self._to_host(self._slots), bins, Event(self.device)))
        self._written, self._bins = 0, {}
        return True

    def _to_host(self, t: Any) -> Any:
        """Start the copy of a tensor to the host."""
        import torch

        host = torch.empty_like(t, device="cpu", pin_memory=self.device.type != "cpu")
        return host.copy_(t, non_blocking=True)

    def take(self, *, waits: bool) -> list[Result]:
        """Return what was copied before; with *waits* also what was copied last."""
        ready = self._copies if waits else self._copies[:-1]
        steps, self._steps = self._steps[: len(ready)], self._steps[len(ready) :]
        self._copies = self._copies[len(ready) :]
        out: list[Result] = []
        for (host, bins, event), step in zip(ready, steps, strict=True):
            event.wait()
            out += self._decode(host.view(-1, WORDS), bins, step)
        return out

    def _decode(self, host: Any, bins: dict[int, Any], step: int | None) -> list[Result]:
        written = int(host[0, 0])
        first = max(self._read, written - self.room)
        self.lost += first - self._read
        self._read = written
        at, end = first % self.room, first % self.room + written - first
        slots = host[1 + at : 1 + end].tolist() + host[1 : 1 + max(0, end - self.room)].tolist()
        out: list[Result] = []
        for words in slots:
            number = words[0]
            if number in self._captured:
                entry = self._known[number]
                when = -1 if step is None else step
                out.append(Result(0, entry.tag, entry.finish(words), step=when))
                continue
            entry = self._known.pop(number)
            stats, counts = entry.finish(words), bins.get(number)
            made = None if counts is None else _histogram(counts, entry.repeat, stats)
            out.append(Result(number, entry.tag, stats, entry.cost(), made))
        return out


def _parts(count: int, most: int) -> int:
    """Return the number of programs for a tensor, a power of two."""
    return min(most, 1 << max(0, math.ceil(count / TILE) - 1).bit_length())
