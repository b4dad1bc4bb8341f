"""Runs as tables for DuckDB, Polars, pyarrow, pandas: `tt.open_many("runs")`.

Rows are made in C (`_core.Table`) and read through Arrow's C interface, so that none of these
libraries is needed here.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from tensortap import _core
from tensortap.cloud.stores import is_url, public_name

if TYPE_CHECKING:
    from tensortap.runs.run import Run

    Path = str | os.PathLike[str]
    Steps = int | tuple[int | None, int | None] | None
    Ranks = int | Iterable[int] | Literal["all"] | None

DEPTH = 3  # folders below the one that is searched, as `tensortap ls` does
TABLES = tuple(name for name, _, _ in _core.tables())


def make_table(
    table: str,
    paths: dict[str, str],
    pattern: str = "*",
    *,
    steps: Steps = None,
    ranks: Ranks = None,
    fields: Iterable[str] | None = None,
    partial: bool = False,
) -> _core.Table:
    """Return a table over runs by their names; the other arguments are those of `Run.table`."""
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be a glob like 'activation/*', not {pattern!r}")
    if isinstance(fields, str):
        raise TypeError(f"fields must be a list of names like ['step', 'rms'], not {fields!r}")
    first, last = _span(steps)
    names = [path.encode(errors="surrogateescape").decode(errors="replace") for path in paths]
    chosen = None if fields is None else list(fields)
    return _core.Table(
        table, list(paths.values()), names, pattern, first, last, _ranks(ranks), chosen, partial
    )


def _span(steps: Steps) -> tuple[int, int]:
    pair = (steps, steps) if isinstance(steps, int) else (None, None) if steps is None else steps
    if not (isinstance(pair, tuple) and len(pair) == 2) or not all(
        end is None or isinstance(end, int) for end in pair
    ):
        raise TypeError(f"steps must be a step or (first, last), None for no limit, not {steps!r}")
    first, last = pair
    return -sys.maxsize - 1 if first is None else first, sys.maxsize if last is None else last


def _ranks(ranks: Ranks) -> list[int] | None:
    if ranks is None:
        return None
    if ranks == "all":
        return []
    found = [ranks] if isinstance(ranks, int) else list(ranks)
    if not found or not all(isinstance(rank, int) and rank >= 0 for rank in found):
        raise TypeError(f'ranks must be "all", a rank or a list of ranks, not {ranks!r}')
    return found


class Runs:
    """Many runs as tables; `tt.open_many` returns it.

    Libraries that read Arrow take it as the table of all points; `table` gives the others.

    Args:
        paths: Of the runs. `tt.open_many` finds them.

    Example:
        >>> import tensortap as tt
        >>> for name in ("a", "b"):
        ...     with tt.record(f"sweep/{name}") as run:
        ...         run.log("loss", 0.5)
        >>> runs = tt.open_many("sweep")
        >>> len(runs), runs.names
        (2, ['sweep/a', 'sweep/b'])
        >>> notes = runs.table("notes")
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._sources = [os.fspath(path) for path in paths]
        self.names = [public_name(path) for path in self._sources]
        self._paths: dict[str, str] = {}  # where each is, once it is known

    def points(
        self,
        pattern: str = "*",
        *,
        steps: Steps = None,
        ranks: Ranks = None,
        fields: Iterable[str] | None = None,
        partial: bool = False,
    ) -> _core.Table:
        """Return the points of sites that match, as `Run.points` does."""
        return self.table(
            "points", pattern, steps=steps, ranks=ranks, fields=fields, partial=partial
        )

    def table(
        self,
        name: str,
        pattern: str = "*",
        *,
        steps: Steps = None,
        ranks: Ranks = None,
        fields: Iterable[str] | None = None,
        partial: bool = False,
    ) -> _core.Table:
        """Return one of the tables over all runs, as `Run.table` does."""
        if not self._paths:
            self._paths = {public_name(run): mirror_of(run) for run in self._sources}
        return make_table(
            name, self._paths, pattern, steps=steps, ranks=ranks, fields=fields, partial=partial
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.points().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Run]:
        from tensortap.runs.run import Run

        return (Run(path) for path in self._sources)

    def __repr__(self) -> str:
        return f"<{len(self)} run{'' if len(self) == 1 else 's'}>"


def open_many(pattern: Path | Iterable[Path]) -> Runs:
    """Find runs, to read all of them as one table.

    Nothing is opened yet: each run is read when a table comes to it.

    Args:
        pattern: A run, a folder with runs in it or up to three folders below, a glob of such
            ("runs/2026-*"), a URL of an object store, or a list of any of these.

    Returns:
        The runs. DuckDB, Polars, pyarrow and pandas take it as a table of points.

    Raises:
        FileNotFoundError: There is no run.

    Example:
        >>> import tensortap as tt
        >>> with tt.record("many/first") as run:
        ...     run.log("loss", 0.5)
        >>> tt.open_many("many/*")
        <1 run>
    """
    patterns = [pattern] if isinstance(pattern, (str, os.PathLike)) else list(pattern)
    found: dict[str, None] = {}
    for one in [os.fspath(path) for path in patterns]:
        if is_url(one):
            found |= dict.fromkeys(find_urls(one))
            continue
        matches = [one] if os.path.exists(one) else sorted(glob.glob(one))
        runs = [run for match in matches for run in find_runs(match)]
        if not runs:
            raise FileNotFoundError(
                f"there is no run at {one}; give a run, a folder with runs, or a glob of them"
            )
        found |= dict.fromkeys(runs)
    return Runs(found)


def find_urls(url: str) -> list[str]:
    """Return the runs at and below a URL, from one list of its objects."""
    from tensortap.cloud.segments import runs_of
    from tensortap.cloud.stores import hide_secrets, open_store

    folders = runs_of(open_store(url).objects())
    if not folders:
        raise FileNotFoundError(
            f"there is no run at {hide_secrets(url)}; give the folder of a run, or one with runs"
        )
    return [f"{url.rstrip('/')}/{folder}".rstrip("/") for folder in folders]


def mirror_of(path: str) -> str:
    """Return where a run can be read: its mirror, if it is in an object store."""
    from tensortap.cloud.mirror import local

    return str(local(path))


def find_runs(path: str, depth: int = 0) -> Iterator[str]:
    """Yield the runs at a path and below, by name."""
    if os.path.isfile(path) and path.endswith(".tap"):
        yield path
    if not os.path.isdir(path):
        return
    try:
        with os.scandir(path) as entries:
            inner = sorted(entries, key=lambda entry: entry.name)
    except OSError:  # not ours to read: as if it were not there
        return
    if any(entry.name.startswith("rank") and entry.name.endswith(".tap") for entry in inner):
        yield path
    elif depth < DEPTH:
        for entry in inner:
            if not entry.name.startswith(".") and entry.is_dir():
                yield from find_runs(
                    os.path.join(path, entry.name) if path != "." else entry.name, depth + 1
                )
