"""Read a run: `run = tt.open("runs/today")`, also while it is being written.

All reading is done in C (`_core.RunReader`), file by file and site by site; this
file joins the ranks and gives the answers the shape that Python users expect.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from tensortap import _core
from tensortap.cloud.stores import is_url
from tensortap.runs import arrays, describe, page, program, tables
from tensortap.runs.arrays import (
    DIGEST,
    FIELDS,
    HIST,
    PLACED,
    SAMPLE,
    STATS,
    TOKENS,
    VALUE,
    column,
    empty,
    join,
)

if TYPE_CHECKING:
    from typing import Self

    import numpy as np
    import numpy.typing as npt

    from tensortap._core import Stats
    from tensortap.cloud.mirror import Ask

    Steps = npt.NDArray[np.int64]
    Values = npt.NDArray[np.float64]

NUMBERS = ("rank", "world_size", "local_rank", "node", "restart", "pid")  # of the info
OURS = "tensortap/"  # sites about the recording itself


class Note(NamedTuple):
    """A remark in a run."""

    step: int
    time: float  # seconds since 1970
    text: str
    rank: int


class Fed(NamedTuple):
    """A finite tensor that fed one that is not."""

    role: Literal["before", "parameter", "previous"]
    name: str
    step: int
    stats: Stats | None  # None: a number


class NonFinite(NamedTuple):
    """The first NaN or Inf of a run: where it was born."""

    name: str
    step: int
    call: int
    rank: int
    birth: Literal["forward", "update", "backward", "loss", "forward or update"]
    order: int  # its place among the points of its step, from 1 ...
    of: int  # ... to this
    reached: int  # sites that have been non-finite since, this one too
    stats: Stats | None  # None: a number
    fed_by: tuple[Fed, ...]
    together: int  # gradients that became so with it and were read together; 0: it was the first
    masked: int  # sites that hold only -Inf where masks do: not counted


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
    gone_values: int  # evicted to stay within max_bytes
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


class File(NamedTuple):
    """One file of a run: a rank."""

    path: str
    rank: int
    closed: bool
    bytes: int
    points: int
    first_step: int
    last_step: int
    dropped_events: int
    damaged_bytes: int
    stopped: str | None  # "stopped by ValueError: …": what ended it; None: no exception


class Joined(NamedTuple):
    """What became of a site when the points of all ranks were joined."""

    ranks: int  # that have points of it
    parts: int  # that the whole tensor has; 1: every rank has all of it
    points: int  # joined
    incomplete: int  # steps and calls of which parts are missing: left out
    found: int  # parts that were there, of the latest of these
    partial: int  # of which ranks hold addends of a sum that is still to be made: left out
    unknown: int  # whose placement is not known: left out
    unplaced: int  # without a placement: those of the lowest rank
    unequal: int  # of which replicas differ: those of the lowest rank
    first_unequal: int  # the first step of these; -1: none


class Run:
    """A recorded run that is read, with all its ranks; `tt.open` returns it.

    Args:
        path: As for `tt.open`.

    Example:
        >>> import numpy as np, tensortap as tt
        >>> with tt.record("runs/read", keep="stats") as run:
        ...     run.tensor("x", np.arange(3.0))
        >>> tt.Run("runs/read").stats("x", 0).max
        2.0
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.url = os.fspath(path) if is_url(os.fspath(path)) else None  # in an object store
        self.path = Path(path if self.url is None else self._mirror())
        if not self.path.exists():
            raise FileNotFoundError(
                f"there is no run at {self.path}{describe.suggest_run(self.path)}"
            )
        if self.path.is_dir() and not any(self.path.glob("*.tap")):
            raise FileNotFoundError(f"{self.path} holds no run{describe.suggest_inside(self.path)}")
        self._reader = _core.RunReader(self.path)
        self._joined: _core.RunReader | None = None
        self.files = self._list_files()

    def _mirror(self, *, whole: bool = False, ask: Ask | None = None) -> str:
        """Read what is needed of a run in an object store; return the local folder."""
        from tensortap.cloud.mirror import mirror

        assert self.url is not None
        return mirror(self.url, whole=whole, ask=ask)[0]

    def _fetch_value(self, at: tuple[int, int, int]) -> None:
        """Read the blocks of a value of a run in an object store."""

        def ask(_: Path) -> list[tuple[int, int, str]]:
            self._reader.missed()
            with suppress(ValueError, LookupError):
                self._reader.value(*at)
            return self._reader.missed()

        self._mirror(ask=ask)

    # ---- what there is

    def names(self, pattern: str = "*") -> list[str]:
        """Return the names that match a glob and have points, in order of appearance.

        Those about the recording itself (`tensortap/cost`) only if the glob says so.
        """
        if not isinstance(pattern, str):
            raise TypeError(f"pattern must be a glob like 'activation/*', not {pattern!r}")
        found = self._reader.names(pattern)
        if pattern.startswith(OURS):
            return found
        return [name for name in found if not name.startswith(OURS)]

    @property
    def steps(self) -> Steps:
        """All steps of all ranks, ascending; an `array.array` where NumPy is not installed."""
        cap = 1024
        while True:
            steps: Steps = empty("q", cap)
            count = self._reader.steps(steps)
            if count <= cap:
                return steps[:count]
            cap = count + 1024  # a live run grows

    @property
    def closed(self) -> bool:
        """Nothing can be read any more."""
        return self._reader.closed

    @property
    def ranks(self) -> list[int]:
        """The ranks that recorded, ascending."""
        return sorted({file.rank for file in self.files})

    @property
    def info(self) -> dict[str, Any]:
        """When, where and with what the run was made, as its first rank says."""
        return self.info_of(self.files[0].rank)

    def info_of(self, rank: int) -> dict[str, Any]:
        """Return the info of one rank."""
        info = self._reader.info(self._files_of(rank)[0])
        return {key: _parsed(key, text) for key, text in info.items()}

    @property
    def modules(self) -> dict[str, str]:
        """The class name of each watched module by its path; old runs have none."""
        found: dict[str, str] = {}
        for i in range(len(self.files)):
            found |= self._reader.modules(i)
        return found

    @property
    def settings(self) -> dict[str, str]:
        """What the program had set when it ended, as its first rank says; old runs have none.

        Example:
            >>> import torch, tensortap as tt
            >>> model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Dropout(0.9))
            >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            >>> with tt.record("runs/set", model=model):
            ...     model(torch.ones(1, 2)).sum().backward()
            ...     optimizer.step()
            >>> settings = tt.open("runs/set").settings
            >>> settings["optimizer/class"], settings["optimizer/lr"], settings["module/1"]
            ('torch.optim.SGD', '0.5', 'Dropout(p=0.9, inplace=False)')
        """
        found = {key: value for _, key, value in self._reader.settings(0)}
        return {key: value for key, value in found.items() if value}

    @property
    def strides(self) -> list[tuple[int, int]]:
        """From which step on tensors were written at every how many-th step.

        Empty if every step was written. Later entries replace earlier ones from their step on. Of
        several ranks that are joined: those of the rank that wrote the fewest.
        """
        return self._select(None)[0].strides(0)

    @property
    def notes(self) -> list[Note]:
        """All remarks, in order of time."""
        found = [
            (time, Note(step, time / 1e9, text, file.rank))
            for i, file in enumerate(self.files)
            for step, time, text in self._reader.notes(i)
        ]
        return [note for _, note in sorted(found, key=lambda pair: pair[0])]

    @property
    def state(self) -> Literal["finished", "live", "crashed", "stopped"]:
        """How the run ended.

        "finished": all ranks closed their files; "live": some still write; "crashed": some
        were killed; "stopped": an exception ended some, and `files` says which.
        """
        still_open = [file for file in self.files if not file.closed]
        if not still_open:
            return "stopped" if any(file.stopped for file in self.files) else "finished"
        return "live" if any(_is_locked(file.path) for file in still_open) else "crashed"

    @property
    def cost(self) -> float | None:
        """The share of the time that recording took, the largest of all ranks."""
        name = f"{OURS}cost"
        if name not in self:
            return None
        shares = [self.series(name, "value", rank=rank)[1] for rank in self.ranks]
        return max((float(share[-1]) for share in shares if len(share)), default=None)

    @property
    def first_nonfinite(self) -> NonFinite | None:
        """Where the first NaN or Inf was born, as `tensortap nan` finds it."""
        return self._origin(None)

    def _origin(self, allow: str | None) -> NonFinite | None:
        found = self._reader.origin(allow)
        if found is None:
            return None
        file, name, index, birth, order, of, reached, together, masked, feeds = found
        step, _, call, _, _, _, _, _, stats, _ = self._point(file, name, index)
        fed = []
        for role, other, at in feeds:
            point = self._point(file, other, at)
            fed.append(Fed(role, other, point[0], point[8]))
        rank = self.files[file].rank
        return NonFinite(
            name, step, call, rank, birth, order, of, reached, stats, tuple(fed), together, masked
        )

    def _point(self, file: int, name: str, index: int) -> tuple[Any, ...]:
        return self._reader.point(file, self._reader.find(name), index)

    # ---- one name

    def series(
        self, name: str, field: str | None = None, *, rank: int | None = None
    ) -> tuple[Steps, Values]:
        """Return one field over all steps as two arrays, of the whole job or of one rank.

        *field*: for tensors any of the statistics ("mean" if not given), for numbers "value";
        also "time", "call", "phase", "thread".  "loss" is the loss of the run, if it has one
        alone.  The parts that ranks hold are joined: one value for each step and call, that of
        the whole tensor; `joined` says what could not be. In a run that does not say where its
        tensors belong (of an older version) a step that two ranks recorded
        appears twice. Where NumPy is not installed, the arrays are `array.array`.
        """
        site = self._site(name)
        reader, wanted = self._select(rank)
        if field is not None and field not in FIELDS:
            raise ValueError(f"field must be one of {', '.join(FIELDS)}, not {field!r}")
        for one in (field,) if field is not None else ("mean", "value"):
            parts = [column(reader, i, site, one) for i in wanted]
            if any(len(steps) for steps, _ in parts):
                break
        return parts[0] if len(parts) == 1 else join(parts)

    @overload
    def stats(
        self, name: str, step: None = None, *, rank: int | None = None
    ) -> list[_core.Stats]: ...
    @overload
    def stats(
        self, name: str, step: int, *, call: int = 0, rank: int | None = None
    ) -> _core.Stats: ...
    def stats(
        self, name: str, step: int | None = None, *, call: int = 0, rank: int | None = None
    ) -> list[_core.Stats] | _core.Stats:
        """Return the statistics of every point of a tensor, or those of one step."""
        reader, wanted = self._select(rank)
        if step is not None:
            at = self._seek(name, step, call, rank, STATS, "statistics")
            stats: _core.Stats = reader.point(*at)[8]
            return stats
        site = self._site(name)
        found: list[tuple[int, _core.Stats]] = []
        points = sum(reader.points(i, site) for i in wanted)
        arrays.refuse_bomb(self._reader, points, f"read one step, or run.series({name!r}, FIELD)")
        for i in wanted:
            rows = (reader.point(i, site, k) for k in range(reader.points(i, site)))
            found += [(row[0], row[8]) for row in rows if row[6] & STATS]
        if len(wanted) > 1:
            found.sort(key=lambda pair: pair[0])
        return [stats for _, stats in found]

    def tensor(
        self, name: str, step: int, *, call: int = 0, rank: int = 0, as_numpy: bool = False
    ) -> Any:
        """Return a tensor that was recorded with keep="value": a torch.Tensor, or a NumPy array."""
        at = self._seek(name, step, call, rank, VALUE, "value")
        if self.url is not None:
            self._fetch_value(at)
        try:
            return arrays.value(self._reader, *at, as_numpy)
        except LookupError as gone:
            raise KeyError(f"{name} at step {step}: {gone}") from None

    def digest(self, name: str, step: int, *, call: int = 0, rank: int = 0) -> _core.Digest:
        """Return the digest of a tensor that was recorded with keep="digest" or "value"."""
        try:
            at = self._seek(name, step, call, rank, DIGEST, "digest")
        except KeyError:
            at = self._seek(name, step, call, rank, VALUE, "digest")
        digest: _core.Digest = self._reader.point(*at)[9]
        return digest

    def placed_digest(
        self, name: str, step: int, *, call: int = 0, rank: int | None = None
    ) -> _core.Digest:
        """Return the digest of a parameter that does not depend on how ranks share it.

        It was recorded with keep="placed". Those of two runs are equal if the parameter has the
        same bits in both, whether one process or many ranks hold it; the digest of one rank's part
        says nothing alone.
        """
        at = self._seek(name, step, call, rank, PLACED, "placed digest")
        digest = self._select(rank)[0].placed(*at)
        assert digest is not None  # such a point was looked for
        return digest

    def histogram(
        self, name: str, step: int, *, call: int = 0, rank: int | None = None
    ) -> list[tuple[float, float, int]]:
        """Return (low, high, count) of each bin of a tensor that was recorded with keep="hist"."""
        at = self._seek(name, step, call, rank, HIST, "histogram")
        return self._select(rank)[0].hist(*at)

    def joined(self, name: str) -> Joined | None:
        """Return what became of a site when the ranks were joined; None: they cannot be."""
        found = self._select(None)[0].joined(self._site(name))
        return None if found is None else Joined(*found)

    def sample(self, name: str, step: int, *, call: int = 0, rank: int = 0) -> _core.Sample:
        """Return the sample of a tensor that was recorded with keep="sample"."""
        return self._reader.sample(*self._seek(name, step, call, rank, SAMPLE, "sample"))

    def tokens(self, name: str, step: int, *, call: int = 0, rank: int = 0) -> Any:
        """Return the sketches of the tokens of a tensor that was recorded with keep="tokens".

        Returns:
            A NumPy array of float32, a row a token: its l2 norm, then the real and imaginary parts
            of eight sums. Sketches are linear, and the distance of two estimates that of their
            tokens.
        """
        at = self._seek(name, step, call, rank, TOKENS, "sketches of tokens")
        return arrays.sketches(self._reader, *at)

    # ---- all of it

    def points(
        self,
        pattern: str = "*",
        *,
        steps: tables.Steps = None,
        ranks: tables.Ranks = None,
        fields: Iterable[str] | None = None,
        partial: bool = False,
    ) -> _core.Table:
        """Return the points of sites that match, as a table for DuckDB, Polars, pyarrow, pandas.

        Args:
            pattern: Names of sites; `*` matches any characters. Only their chunks are read.
            steps: A step, or (first, last), both included; None stands for no limit.
            ranks: "all", a rank or a list of ranks: their points as they are. Without it the parts
                that ranks hold are joined, as for `series`; the column `rank` is -1 then.
            fields: Names of columns. Defaults to all.
            partial: Leave out what is damaged; the attribute `lost` of the table says how much.
                Otherwise reading ends with an error there.

        Returns:
            An object that any library takes that reads Arrow. It reads the run anew each time.

        Example:
            >>> import tensortap as tt
            >>> with tt.record("runs/table") as run:
            ...     run.log("loss", 0.5)
            >>> points = tt.open("runs/table").points("loss", fields=["step", "value"])
            >>> # duckdb.sql("select max(value) from points"), polars.DataFrame(points)
        """
        return self.table(
            "points", pattern, steps=steps, ranks=ranks, fields=fields, partial=partial
        )

    def table(
        self,
        name: str,
        pattern: str = "*",
        *,
        steps: tables.Steps = None,
        ranks: tables.Ranks = None,
        fields: Iterable[str] | None = None,
        partial: bool = False,
    ) -> _core.Table:
        """Return "points", "histograms", "runs", "sites", "notes", "settings" or "findings".

        The arguments are those of `points`; `tensortap query --schema` prints the columns.
        """
        return tables.make_table(
            name,
            {describe.name(self): os.fspath(self.path)},
            pattern,
            steps=steps,
            ranks=ranks,
            fields=fields,
            partial=partial,
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.points().__arrow_c_stream__(requested_schema)

    def to_frame(self, pattern: str = "*") -> Any:
        """Return all points as a pandas.DataFrame: one row each, NaN where a field is not there."""
        return arrays.frame(self, self._reader, pattern)

    def report(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write one HTML file about the run, as `tensortap report` does.

        Args:
            path: Name of the file. Defaults to the run's name with .html, in the current folder.

        Returns:
            The name of the file.
        """
        out = Path(path) if path is not None else Path(f"{self.path.absolute().name}.html")
        private = program.is_private()
        out.write_bytes(self._reader.page(os.fspath(self.path), self.state, private))
        return out

    def plot(self, pattern: str, field: str = "rms") -> page.Plot:
        """Draw a field of a few sites over the steps.

        Args:
            pattern: Names of sites; `*` matches any characters. At most eight lines are drawn;
                the title says if there are more.
            field: What to draw, as for `series`; of logged numbers their value.

        Returns:
            The chart, which notebooks show. `save` writes it as .svg.

        Raises:
            KeyError: No site that matches has the field.
        """
        return page.plot(self, self._reader, pattern, field)

    def check(self) -> Check:
        """Read everything and check every checksum."""
        if self.url is not None:
            self._mirror(whole=True)
        checks = ((file.path, *self._reader.check(i)) for i, file in enumerate(self.files))
        return Check(tuple(FileCheck(*check) for check in checks))

    def refresh(self) -> Self:
        """Read what was written since the run was opened."""
        if self.url is not None:
            self._mirror()
        self._reader.refresh()
        self._joined = None
        self.files = self._list_files()
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

    def __repr__(self) -> str:
        return describe.line(self)

    def _repr_html_(self) -> str:
        summary = "" if self.closed else page.summary(self, self._reader)
        return summary + describe.table(self)

    # ---- numbers of files and sites

    def _list_files(self) -> list[File]:
        return [File(*row) for row in self._reader.files()]

    def _files_of(self, rank: int | None) -> list[int]:
        """Return the numbers of the files of one rank, or of all."""
        wanted = [i for i, file in enumerate(self.files) if rank is None or file.rank == rank]
        if not wanted:
            raise KeyError(f"the run has no rank {rank}; it has {self.ranks}")
        return wanted

    def _select(self, rank: int | None) -> tuple[_core.RunReader, list[int]]:
        """Return who reads one rank, or all of them as one, and the numbers of its files."""
        if rank is not None or len(self.files) == 1:
            return self._reader, self._files_of(rank)
        if self._joined is None:
            self._joined = _core.RunReader(self.path, joins=True)
        return self._joined, list(range(len(self._joined.files())))

    def _site(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {name!r}")
        site = self._reader.find(name)
        if site < 0 and name == "loss" and len(losses := self.names("loss/*")) == 1:
            site = self._reader.find(losses[0])  # named after its line: loss/train.py:34
        if site < 0:
            raise KeyError(
                f"the run has no {name!r}{describe.suggest(name, self._reader.names('*'))}"
            )
        return site

    def _seek(
        self, name: str, step: int, call: int, rank: int | None, products: int, what: str
    ) -> tuple[int, int, int]:
        """Return file, site and index of a point."""
        site = self._site(name)
        reader, wanted = self._select(rank)
        for i in wanted:
            index = reader.seek(i, site, step, call, products)
            if index >= 0:
                return i, site, index
        raise KeyError(self._missing(name, step, call, rank, what))

    def _missing(self, name: str, step: int, call: int, rank: int | None, what: str) -> str:
        """Return why there is no such point, and what there is."""
        steps = self.series(name, "call", rank=rank)[0]
        if step in steps:
            again = f", call {call}" if call else ""
            keep = {"value": "value", "placed digest": "placed"}.get(what)
            hint = f'; record it with keep="{keep}"' if keep else ""
            return f"{name} at step {step}{again} has no {what}{hint}"
        if not len(steps):
            return f"{name} was not recorded by rank {rank}"
        near = min(steps, key=lambda other: abs(other - step))
        span = f"{steps[0]} … {steps[-1]}"
        return f"{name} was not recorded at step {step}; the nearest is {near} ({span})"


def reader_of(run: Run) -> _core.RunReader:
    """Return the reader of a run, for other packages of tensortap."""
    return run._reader


def whole_of(run: Run) -> _core.RunReader:
    """Return the reader of the whole job: of all ranks as one, where they can be joined."""
    return run._select(None)[0]


def _parsed(key: str, text: str) -> Any:
    try:
        if key == "argv":
            return json.loads(text)
        return int(text) if key in NUMBERS else text
    except ValueError:
        return text


def _is_locked(path: str) -> bool:
    """Return whether a writer of this machine holds the file."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
