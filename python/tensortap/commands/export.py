"""Write a run in a format that needs a Python library: the Python half of `tensortap export`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tensortap.files import hdf5
from tensortap.files.whole import whole_file
from tensortap.runs import arrays
from tensortap.runs.arrays import COUNTS, HIST, OF_STATS, SCALAR, STATS, VALUE
from tensortap.runs.run import Run, reader_of, whole_of

HEAD = ("site", "rank", "step", "call", "time", "phase", "value", "dtype", "shape")
NUMBERS = (*COUNTS, *OF_STATS)
COLUMNS = (*HEAD, *NUMBERS)  # those of the csv, and var and rms
WHOLE = ("rank", "step", "call", "time", *COUNTS)
TEXTS = ("site", "phase", "dtype", "shape")
PHASES = (None, "train", "eval")

Bin = tuple[float, float, int]  # low, high, count


def warn(text: str) -> None:
    """Print a line on standard error."""
    print(f"tensortap: {text}", file=sys.stderr)


def fail(text: str, code: int = 3) -> NoReturn:
    """Print what went wrong and exit with this code."""
    warn(text)
    raise SystemExit(code)


class Damaged(Exception):
    """The run cannot be read as a whole."""


class Progress:
    """A progress bar on the terminal, shown after one second."""

    WIDTH = 24

    def __init__(self, total: int) -> None:
        self.done, self.total = 0, max(total, 1)
        self.next = time.monotonic() + 1
        self.is_shown = False
        self.is_wanted = sys.stderr.isatty()

    def add(self, count: int) -> None:
        """Count further points as done."""
        self.done += count
        if self.is_wanted and time.monotonic() >= self.next:
            self.next = time.monotonic() + 0.1
            share = min(self.done / self.total, 1)
            bar = ("=" * int(share * self.WIDTH)).ljust(self.WIDTH)
            print(f"\rexporting [{bar}] {share:4.0%}", end="", file=sys.stderr, flush=True)
            self.is_shown = True

    def end(self) -> None:
        """Remove the bar."""
        if self.is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Source:
    """The selected points, site by site and rank by rank."""

    def __init__(
        self, path: str, glob: str, steps: str, *, is_partial: bool, joins: bool = False
    ) -> None:
        """Open the run; *steps* is A:B, A:, :B, : or A, already checked by the program.

        With *joins* the ranks of a run that says where its tensors belong are joined: rank -1.
        """
        self.is_partial = is_partial
        self.lost: set[tuple[int, int, int]] = set()  # file, site and number of a point
        self.evicted = 0
        self.run = Run(path)
        self.reader = whole_of(self.run) if joins else reader_of(self.run)
        is_joined = len(self.reader.files()) < len(self.run.files)
        files = self.run.files[:1] if is_joined else self.run.files
        self.first, self.last = span(steps)
        self.ranks = [-1] if is_joined else [file.rank for file in files]
        # A forked child has the rank of its parent, but another file: rank0.4711.tap.
        self.labels = [os.path.basename(file.path).removesuffix(".tap") for file in files]
        self.parts = [  # site and file with points
            (name, self.reader.find(name), file, rank)
            for name in self.run.names(glob)
            for file, rank in enumerate(self.ranks)
            if self.reader.points(file, self.reader.find(name)) > 0
        ]
        self.bar = Progress(sum(self.reader.points(file, site) for _, site, file, _ in self.parts))

    def wants(self, step: Any) -> Any:
        """Return whether a step, or each of an array of steps, was selected."""
        return (step >= self.first) & (step <= self.last)

    def points(
        self, site: int, file: int, product: int = 0
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield (index, point) of one site in one file, if any of them has this product."""
        count = self.reader.points(file, site)
        if product and not self.has(site, file, product):
            self.bar.add(count)
            return
        for index in range(count):
            self.bar.add(1)
            try:
                point = self.reader.point(file, site, index)
            except ValueError as damage:
                self.miss(damage, file, site, index)
                continue
            if self.wants(point[0]) and point[6] & product == product:
                yield index, point

    def has(self, site: int, file: int, product: int) -> bool:
        """Return whether a point of one site in one file has this product, or may have it."""
        try:
            products = arrays.column(self.reader, file, site, "products")[1]
        except ValueError:  # some points cannot be read
            return True
        return any(int(found) & product for found in set(products))

    def miss(self, damage: ValueError, *point: int) -> None:
        """Note a point that cannot be read; raise Damaged unless the export is partial."""
        if not self.is_partial:
            raise Damaged(f"{damage}; --partial exports the rest") from None
        file, site, index = point
        self.lost.add((file, site, index))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield every point as a row of COLUMNS."""
        for name, site, file, rank in self.parts:
            for _, point in self.points(site, file):
                step, when, call, _, phase, _, products, value, stats, _ = point
                head = (name, rank, step, call, when, PHASES[phase] if phase < 3 else None)
                tail: tuple[Any, ...] = (None, None, *([None] * len(NUMBERS)))
                if products & STATS:
                    numbers = (_number(getattr(stats, field)) for field in NUMBERS)
                    tail = (str(stats.dtype), "x".join(map(str, stats.shape)), *numbers)
                yield (*head, value if products & SCALAR else None, *tail)

    def columns(self, site: int, file: int) -> Iterator[tuple[str, Any]]:
        """Yield the steps, and then field by field, of one site in one file; needs NumPy."""
        has_steps = False
        for field in ("value", *NUMBERS):
            try:  # a whole column at once, read in C
                steps, numbers = arrays.column(self.reader, file, site, field)
            except ValueError:  # some points cannot be read; every column says so
                yield from self._columns_by_point(site, file).items()
                return
            chosen = self.wants(steps)
            if chosen.any():
                if not has_steps:
                    yield "step", steps[chosen]
                has_steps = True
                yield field, numbers[chosen]

    def _columns_by_point(self, site: int, file: int) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        for _, (step, _, _, _, _, _, products, value, stats, _) in self.points(site, file):
            found = {"value": value} if products & SCALAR else {}
            if products & STATS:
                found |= {field: _number(getattr(stats, field)) for field in NUMBERS}
            if found:
                columns.setdefault("step", []).append(step)
            for field, number in found.items():
                columns.setdefault(field, []).append(math.nan if number is None else number)
        return columns

    def histograms(self) -> Iterator[tuple[str, int, tuple[Any, ...], list[Bin]]]:
        """Yield (site, number of the file, point, bins) of every histogram that was kept."""
        for name, site, file, _ in self.parts:
            for index, point in self.points(site, file, HIST):
                yield name, file, point, self.reader.hist(file, site, index)

    def which(self, file: int, point: tuple[Any, ...]) -> str:
        """Return a name for a point that is unique in its site: step, call, and file if several."""
        step, call = point[0], point[2]
        which = f"{step}.{call}" if call else f"{step}"
        return which + (f"@{self.labels[file]}" if len(self.labels) > 1 else "")

    def values(self, *, as_numpy: bool) -> Iterator[tuple[str, str, Any]]:
        """Yield (site, which, tensor) of every value that was kept and not evicted."""
        for name, site, file, _ in self.parts:
            for index, point in self.points(site, file, VALUE):
                try:
                    tensor = arrays.value(self.reader, file, site, index, as_numpy)
                except LookupError:  # evicted to stay within max_bytes
                    self.evicted += 1
                    continue
                except ValueError as damage:
                    self.miss(damage, file, site, index)
                    continue
                yield name, self.which(file, point), tensor


def _number(x: Any) -> Any:
    """Return the magnitude of a complex number: tables have one column for it."""
    return abs(x) if isinstance(x, complex) else x


def to_sqlite(source: Source, out: str) -> None:
    """Write the table `points`, and `histograms` with a row for each bin."""
    base = sqlite3.connect(out)
    try:
        kinds = {**dict.fromkeys(WHOLE, "INTEGER"), **dict.fromkeys(TEXTS, "TEXT")}
        columns = ", ".join(f'"{c}" {kinds.get(c, "REAL")}' for c in COLUMNS)
        base.execute("PRAGMA journal_mode = OFF")  # an incomplete file is removed anyway
        base.execute(f"CREATE TABLE points ({columns})")
        marks = ", ".join("?" * len(COLUMNS))
        base.executemany(f"INSERT INTO points VALUES ({marks})", map(_fit, source.rows()))
        base.execute("CREATE INDEX points_site_step ON points (site, step)")
        base.execute(
            "CREATE TABLE histograms (site TEXT, rank INTEGER, step INTEGER, call INTEGER, "
            "low REAL, high REAL, count INTEGER)"
        )
        base.executemany("INSERT INTO histograms VALUES (?, ?, ?, ?, ?, ?, ?)", _bins(source))
        base.execute("CREATE INDEX histograms_site_step ON histograms (site, step)")
        base.commit()
    finally:
        base.close()


def _bins(source: Source) -> Iterator[tuple[Any, ...]]:
    for name, file, point, bins in source.histograms():
        for low, high, count in bins:
            yield name, source.ranks[file], point[0], point[2], low, high, count


def _fit(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Turn integers beyond 64 bits (sums of uint64), which SQLite cannot hold, into floats."""
    return tuple(
        float(x) if isinstance(x, int) and not -(1 << 63) <= x < 1 << 63 else x for x in row
    )


def to_hdf5(source: Source, out: str) -> None:
    """Write /stats/SITE/FIELD, /histograms/SITE/STEP (low, high, count) and /values/SITE/STEP."""
    with hdf5.create(out) as file:
        for name, site, number, _ in source.parts:
            label = [source.labels[number]] if len(source.labels) > 1 else []
            for field, numbers in source.columns(site, number):
                kind = "int64" if field == "step" else "float64"
                hdf5.put(file, hdf5.path_of("stats", name, *label, field), numbers, kind)
        for name, number, point, bins in source.histograms():
            path = hdf5.path_of("histograms", name, source.which(number, point))
            hdf5.put(file, path, bins, "float64")
        for name, which, array in source.values(as_numpy=True):
            hdf5.put(file, hdf5.path_of("values", name, which), array)


def to_pt(source: Source, out: str) -> None:
    """Write {"SITE@STEP": tensor} for torch.load(weights_only=True)."""
    import torch

    found = source.values(as_numpy=False)
    kept = {f"{name}@{which}": tensor for name, which, tensor in found}
    if not kept:
        fail(
            'no values were kept for these sites; record them with keep="value", or use --to csv', 2
        )
    try:
        with open(out, "wb") as file:
            torch.save(kept, file)
    except RuntimeError as error:  # torch hides the system's error
        raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None


WRITERS: dict[str, Callable[[Source, str], None]] = {
    "sqlite": to_sqlite,
    "hdf5": to_hdf5,
    "pt": to_pt,
}


def report(lost: int, evicted: int = 0) -> None:
    """Print on standard error what is missing."""
    points = (
        "1 point could not be read and is"
        if lost == 1
        else f"{lost} points could not be read and are"
    )
    if evicted:
        warn(f"{evicted} values were evicted to stay within max_bytes")
    if lost:
        warn(f"{points} missing")


def to_parquet(options: dict[str, str], words: list[str]) -> int:
    """Write a file of points, or a folder with all tables; return the number of lost points."""
    from tensortap.commands import dataset

    is_partial, out = "partial" in options, options["output"]
    try:
        if not out.endswith(".parquet"):
            lost, size = dataset.write(out, words, options.get("project"), partial=is_partial)
            if size:
                warn(f"{size} bytes of the runs are damaged and missing")
                options["has_loss"] = ""
            return lost
        if os.path.isdir(out):
            fail(f"{out}: Is a directory; --to parquet writes a file if the name ends so")
        path, glob = [*words, "*"][:2]
        if "rank" in options:
            path = os.path.join(path, f"rank{options['rank']}.tap")
        first, last = span(options.get("step", ":"))
        return dataset.write_points(out, path, glob, (first, last), partial=is_partial)
    except dataset.Unreadable as error:
        raise Damaged(
            str(error) if is_partial else f"{error}; --partial exports the rest"
        ) from None


def span(steps: str) -> tuple[int, int]:
    """Return the first and the last step of A:B, A:, :B, : or A."""
    first, colon, last = steps.partition(":")
    last = last if colon else first
    return int(first) if first else -sys.maxsize, int(last) if last else sys.maxsize


def main(options: dict[str, str], words: list[str]) -> None:
    """Export; *options* were checked by cli/commands/export.c, *words* are the run and the glob.

    With "has_loss" the program has already said that something is missing.
    """
    path, glob = [*words, "*"][:2]
    kind, out = options["to"], options["output"]
    bar = None
    lost = evicted = 0
    try:
        if kind == "parquet":
            lost = to_parquet(options, words)
        elif os.path.isdir(out):
            fail(f"{out}: Is a directory; --to {kind} writes a file")
        else:
            if "rank" in options:
                path = os.path.join(path, f"rank{options['rank']}.tap")
            source = Source(
                path,
                glob,
                options.get("step", ":"),
                is_partial="partial" in options,
                joins=kind == "sqlite",  # the others hold values, which ranks have
            )
            bar = source.bar
            with whole_file(out) as part:
                WRITERS[kind](source, part)
            lost, evicted = len(source.lost), source.evicted
    except ImportError as error:
        fail(f"--to {kind} needs {error.name}; install it for {sys.executable}")
    except Damaged as error:
        fail(str(error))
    except OSError as error:
        fail(f"{out}: {error.strerror or error}")
    except sqlite3.Error as error:
        fail(f"{out}: {error}")
    finally:
        if bar is not None:
            bar.end()
    report(lost, evicted)
    if lost or "has_loss" in options:
        raise SystemExit(1)
