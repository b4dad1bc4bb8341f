"""Read a run: `run = tt.open("runs/today")`, also while it is being written.

All reading is done in C (`_core.RunReader`), file by file and site by site; this
file joins the ranks and gives the answers the shape that Python users expect.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import difflib
import fcntl
import html
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from tensortap import _core

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Self

    Steps = npt.NDArray[np.int64]
    Values = npt.NDArray[np.float64]

FIELDS = (
    "value call time phase thread count nan posinf neginf zeros min max absmax sum mean var std l1 l2 rms"
).split()
OF_POINT = 5  # fields that every point has, after "value"
SCALAR, STATS, DIGEST, HIST, SAMPLE, VALUE = 1, 2, 4, 8, 16, 32
NUMBERS = ("rank", "world_size", "pid")  # of the info
OURS = "tensortap/"  # sites about the recording itself


class Note(NamedTuple):
    """A remark in a run."""

    step: int
    time: float  # seconds since 1970
    text: str
    rank: int


class NonFinite(NamedTuple):
    """The first NaN or Inf of a run."""

    name: str
    step: int
    call: int
    rank: int


@dataclass(frozen=True)
class FileCheck:
    """What a check of one file found."""

    path: str
    blocks: int
    points: int
    values: int
    damaged_blocks: int
    damaged_bytes: int
    torn_bytes: int  # an unfinished block at the end: not damage
    gone_values: int  # made room for newer ones
    closed: bool
    first: str  # where the first damage is, and of what kind


@dataclass(frozen=True)
class Check:
    """What a check of a run found."""

    files: tuple[FileCheck, ...]

    @property
    def ok(self) -> bool:
        """Nothing is damaged."""
        return all(file.damaged_blocks == 0 and file.damaged_bytes == 0 for file in self.files)

    def __bool__(self) -> bool:
        return self.ok


class _File(NamedTuple):
    path: str
    rank: int
    closed: bool
    bytes: int
    points: int
    first_step: int
    last_step: int
    dropped_events: int
    damaged_bytes: int


class Run:
    """A run that is read; every rank of it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a run folder, or one file of it."""
        self.path = Path(path)
        if not self.path.exists():
            raise FileNotFoundError(f"there is no run at {self.path}{_suggest_run(self.path)}")
        self._reader = _core.RunReader(self.path)
        self._files = self._list_files()

    # ---- what there is

    def names(self, pattern: str = "*") -> list[str]:
        """Give the names that match a glob, in order of appearance.

        Those about the recording itself (`tensortap/cost`) only if the glob says so.
        """
        found = self._reader.names(pattern)
        if pattern.startswith(OURS):
            return found
        return [name for name in found if not name.startswith(OURS)]

    @property
    def steps(self) -> Steps:
        """All steps of all ranks, ascending."""
        np = _numpy()
        cap = 1024
        while True:
            steps: Steps = np.empty(cap, np.int64)
            count = self._reader.steps(steps)
            if count <= cap:
                return steps[:count]
            cap = count + 1024  # a live run grows

    @property
    def ranks(self) -> list[int]:
        """The ranks that recorded, ascending."""
        return sorted({file.rank for file in self._files})

    @property
    def info(self) -> dict[str, Any]:
        """When, where and with what the run was made, as its first rank says."""
        return self.info_of(self._files[0].rank)

    def info_of(self, rank: int) -> dict[str, Any]:
        """Give the info of one rank."""
        for i, file in enumerate(self._files):
            if file.rank == rank:
                return {key: _parsed(key, text) for key, text in self._reader.info(i).items()}
        raise KeyError(f"the run has no rank {rank}; it has {self.ranks}")

    @property
    def notes(self) -> list[Note]:
        """All remarks, in order of time."""
        found = []
        for i, file in enumerate(self._files):
            for step, time, text in self._reader.notes(i):
                found.append((time, Note(step, time / 1e9, text, file.rank)))
        return [note for _, note in sorted(found, key=lambda pair: pair[0])]

    @property
    def state(self) -> Literal["finished", "live", "crashed"]:
        """Whether all ranks closed their files, some still write, or some were killed."""
        still_open = [file for file in self._files if not file.closed]
        if not still_open:
            return "finished"
        return "live" if any(_is_locked(file.path) for file in still_open) else "crashed"

    @property
    def cost(self) -> float | None:
        """The share of the time that recording took, the largest of all ranks."""
        shares = [self.series(f"{OURS}cost", "value", rank=rank)[1] for rank in self.ranks
                  if f"{OURS}cost" in self.names(f"{OURS}*")]
        return max((float(share[-1]) for share in shares if len(share)), default=None)

    @property
    def first_nonfinite(self) -> NonFinite | None:
        """Where the first NaN or Inf appeared, by step and then by time."""
        best: tuple[tuple[int, int], NonFinite] | None = None
        for i, file in enumerate(self._files):
            for name in self.names():
                site = self._reader.find(name)
                at = self._reader.nonfinite(i, site)
                if at < 0:
                    continue
                step, time, call, *_ = self._reader.point(i, site, at)
                if best is None or (step, time) < best[0]:
                    best = (step, time), NonFinite(name, step, call, file.rank)
        return best[1] if best else None

    # ---- one name

    def series(
        self, name: str, field: str | None = None, *, rank: int | None = None
    ) -> tuple[Steps, Values]:
        """Give one field over all steps as two arrays, of all ranks or one.

        *field*: for tensors any of the statistics ("mean" if not given), for numbers "value";
        also "time", "call", "phase", "thread".  Ranks are joined by step: a step that two
        ranks recorded appears twice.
        """
        np = _numpy()
        site = self._site(name)
        wanted = [i for i, file in enumerate(self._files) if rank is None or file.rank == rank]
        if not wanted:
            raise KeyError(f"the run has no rank {rank}; it has {self.ranks}")
        if field is not None and field not in FIELDS:
            raise ValueError(f"field must be one of {', '.join(FIELDS)}, not {field!r}")
        for one in (field,) if field is not None else ("mean", "value"):
            parts = [self._part(np, i, site, one) for i in wanted]
            steps: Steps = np.concatenate([part[0] for part in parts]) if len(parts) > 1 else parts[0][0]
            values: Values = np.concatenate([part[1] for part in parts]) if len(parts) > 1 else parts[0][1]
            if len(steps):
                break
        if len(parts) > 1:
            order = np.argsort(steps, kind="stable")
            steps, values = steps[order], values[order]
        return steps, values

    def _part(self, np: Any, file: int, site: int, field: str) -> tuple[Steps, Values]:
        cap = self._reader.points(file, site)
        steps, values = np.empty(cap, np.int64), np.empty(cap, np.float64)
        count = self._reader.series(file, site, field, steps, values)
        return steps[:count], values[:count]

    @overload
    def stats(self, name: str, step: None = None, *, rank: int | None = None) -> list[_core.Stats]: ...
    @overload
    def stats(self, name: str, step: int, *, call: int = 0, rank: int | None = None) -> _core.Stats: ...
    def stats(
        self, name: str, step: int | None = None, *, call: int = 0, rank: int | None = None
    ) -> list[_core.Stats] | _core.Stats:
        """Give the statistics of every point of a tensor, or those of one step."""
        site = self._site(name)
        if step is not None:
            file, index = self._seek(name, step, call, rank, STATS, "statistics")
            stats: _core.Stats = self._reader.point(file, site, index)[8]
            return stats
        found: list[tuple[int, _core.Stats]] = []
        wanted = [i for i, file in enumerate(self._files) if rank is None or file.rank == rank]
        for i in wanted:
            found += self._reader.stats(i, site)
        if len(wanted) > 1:
            found.sort(key=lambda pair: pair[0])
        return [stats for _, stats in found]

    def tensor(
        self, name: str, step: int, *, call: int = 0, rank: int = 0, as_numpy: bool = False
    ) -> Any:
        """Give a tensor that was recorded with keep="value": a torch.Tensor, or a NumPy array."""
        file, index = self._seek(name, step, call, rank, VALUE, "value")
        site = self._site(name)
        try:
            dtype, shape, size = self._reader.value(file, site, index)
        except LookupError as gone:
            raise KeyError(f"{name} at step {step}: {gone}") from None
        if as_numpy:
            np = _numpy()
            data = np.empty(size, np.uint8)
            self._reader.value_read(file, site, index, data)
            return data.view(_numpy_dtype(np, dtype)).reshape(shape)
        torch = _torch()
        kind = getattr(torch, dtype)
        if size == 0:
            return torch.empty(shape, dtype=kind)
        memory = bytearray(size)
        self._reader.value_read(file, site, index, memory)
        return torch.frombuffer(memory, dtype=torch.uint8).view(kind).reshape(shape)

    def digest(self, name: str, step: int, *, call: int = 0, rank: int = 0) -> _core.Digest:
        """Give the digest of a tensor that was recorded with keep="digest" or "value"."""
        try:
            file, index = self._seek(name, step, call, rank, DIGEST, "digest")
        except KeyError:
            file, index = self._seek(name, step, call, rank, VALUE, "digest")
        digest: _core.Digest = self._reader.point(file, self._site(name), index)[9]
        return digest

    def histogram(
        self, name: str, step: int, *, call: int = 0, rank: int = 0
    ) -> list[tuple[float, float, int]]:
        """Give (low, high, count) of each bin of a tensor that was recorded with keep="hist"."""
        file, index = self._seek(name, step, call, rank, HIST, "histogram")
        return self._reader.hist(file, self._site(name), index)

    def sample(self, name: str, step: int, *, call: int = 0, rank: int = 0) -> _core.Sample:
        """Give the sample of a tensor that was recorded with keep="sample"."""
        file, index = self._seek(name, step, call, rank, SAMPLE, "sample")
        return self._reader.sample(file, self._site(name), index)

    # ---- all of it

    def to_frame(self, pattern: str = "*") -> Any:
        """Give all points as a pandas.DataFrame: one row each, NaN where a field is not there."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame() needs pandas: pip install pandas") from None
        np = _numpy()
        parts: list[dict[str, Any]] = []
        for name in self.names(pattern):
            site = self._reader.find(name)
            for i, file in enumerate(self._files):
                count = self._reader.points(i, site)
                if count:
                    columns = {"name": np.repeat(name, count), "rank": np.repeat(file.rank, count)}
                    parts.append(columns | self._columns(np, i, site, count))
        if not parts:
            return pandas.DataFrame(columns=["name", "rank", "step", *FIELDS])
        frame = pandas.concat([pandas.DataFrame(part) for part in parts], ignore_index=True)
        return frame.sort_values(["step", "time"], kind="stable", ignore_index=True)

    def _columns(self, np: Any, file: int, site: int, count: int) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        columns["step"], columns["call"] = self._part(np, file, site, "call")
        products = None
        for field in FIELDS:
            values = self._part(np, file, site, field)[1]
            if len(values) not in (0, count):  # numbers and tensors under one name
                if products is None:
                    points = (self._reader.point(file, site, i) for i in range(count))
                    products = np.array([point[6] for point in points])
                has_it = products & (SCALAR if field == "value" else STATS) != 0
                whole = np.full(count, np.nan)
                whole[has_it] = values
                values = whole
            columns[field] = values if len(values) else np.full(count, np.nan)
        for field in ("call", "phase", "thread"):
            columns[field] = columns[field].astype(np.int64)
        columns["time"] = columns["time"].astype(np.int64).view("datetime64[ns]")
        return columns

    def check(self) -> Check:
        """Read everything and check every checksum."""
        return Check(
            tuple(FileCheck(path=file.path, **self._reader.check(i)) for i, file in enumerate(self._files))
        )

    def refresh(self) -> Self:
        """Take in what was written since the run was opened."""
        self._reader.refresh()
        self._files = self._list_files()
        return self

    def close(self) -> None:
        """Let the files go."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._reader.find(name) >= 0

    # ---- in short

    def _summary(self) -> Iterator[tuple[str, str]]:
        steps = self.steps
        span = f" ({steps[0]} … {steps[-1]})" if len(steps) else ""
        yield "steps", f"{len(steps)}{span}"
        yield "sites", str(len(self.names()))
        yield "ranks", str(len(self.ranks))
        yield "points", str(sum(file.points for file in self._files))
        yield "size", _size(sum(file.bytes for file in self._files))
        yield "state", self.state
        cost = self.cost
        if cost is not None:
            yield "cost", f"{cost:.2%} of the time"
        dropped = sum(file.dropped_events for file in self._files)
        if dropped:
            yield "dropped", f"{dropped} events"
        damaged = sum(file.damaged_bytes for file in self._files)
        if damaged:
            yield "damaged", _size(damaged)
        first = self.first_nonfinite
        if first is not None:
            rank = f", rank {first.rank}" if len(self.ranks) > 1 else ""
            yield "first NaN or Inf", f"{first.name} at step {first.step}{rank}"

    def __repr__(self) -> str:
        if self._reader.closed:
            return f"<Run {str(self.path)!r}: closed>"
        parts = dict(self._summary())
        one = [f"{parts['steps']} steps", f"{parts['sites']} sites", f"{parts['ranks']} ranks"]
        one += [parts["size"], parts["state"]]
        one += [f"{key}: {parts[key]}" for key in ("dropped", "damaged", "first NaN or Inf") if key in parts]
        return f"<Run {str(self.path)!r}: {', '.join(one)}>"

    def _repr_html_(self) -> str:
        if self._reader.closed:
            return html.escape(repr(self))
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(key)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for key, text in self._summary()
        )
        return f"<table><caption>Run {html.escape(str(self.path))}</caption>{rows}</table>"

    # ---- numbers of files and sites

    def _list_files(self) -> list[_File]:
        files = [_File(*row) for row in self._reader.files()]
        if not files:
            raise FileNotFoundError(f"{self.path} holds no run: there is no rank0.tap in it")
        return files

    def _site(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {name!r}")
        site = self._reader.find(name)
        if site < 0:
            raise KeyError(f"the run has no {name!r}{_suggest(name, self._reader.names('*'))}")
        return site

    def _seek(
        self, name: str, step: int, call: int, rank: int | None, products: int, what: str
    ) -> tuple[int, int]:
        site = self._site(name)
        for i, file in enumerate(self._files):
            if rank is not None and file.rank != rank:
                continue
            index = self._reader.seek(i, site, step, call, products)
            if index >= 0:
                return i, index
        raise KeyError(self._missing(name, site, step, call, rank, what))

    def _missing(self, name: str, site: int, step: int, call: int, rank: int | None, what: str) -> str:
        """Say why there is no such point, and what there is."""
        if rank is not None and rank not in self.ranks:
            return f"the run has no rank {rank}; it has {self.ranks}"
        steps = self.series(name, "call", rank=rank)[0]
        if step in steps:
            again = f", call {call}" if call else ""
            hint = f'; record it with keep="{what}"' if what == "value" else ""
            return f"{name} at step {step}{again} has no {what}{hint}"
        if not len(steps):
            return f"{name} was not recorded by rank {rank}"
        near = int(steps[abs(steps - step).argmin()])
        return f"{name} was not recorded at step {step}; the nearest is {near} ({steps[0]} … {steps[-1]})"




def _suggest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, 3, 0.6)
    near += [other for other in names if other.endswith(f"/{name}") and other not in near]
    if near:
        return f"; did you mean {' or '.join(repr(other) for other in near[:3])}?"
    return "; names() gives all" if names else "; nothing was recorded"


def _suggest_run(path: Path) -> str:
    try:
        others = sorted(other.name for other in path.parent.iterdir() if other.is_dir())
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, others, 1, 0.6)
    return f"; did you mean {str(path.parent / near[0])!r}?" if near else ""


def _parsed(key: str, text: str) -> Any:
    try:
        if key == "argv":
            return json.loads(text)
        return int(text) if key in NUMBERS else text
    except ValueError:
        return text


def _is_locked(path: str) -> bool:
    """Does a writer of this machine hold the file?"""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1000
    return ""


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ImportError("this needs NumPy: pip install numpy") from None
    return numpy


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ImportError("there is no torch here; as_numpy=True gives a NumPy array") from None
    return torch


def _numpy_dtype(np: Any, name: str) -> Any:
    if name.startswith(("bfloat16", "float8")):
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError(f"NumPy has no {name} of its own: pip install ml_dtypes") from None
        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)
