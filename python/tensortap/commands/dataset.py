"""Write many runs as a folder of Parquet files: a part of `tensortap export --to parquet`.

    FOLDER/points/date=2026-11-18/today-5f3a0c2e.parquet

One file for each run and table that has rows; `date=` (and `project=`) are the only levels. Adding
runs adds files; a run that is exported again replaces its own.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tensortap import _core
from tensortap.cloud.stores import is_url
from tensortap.files.whole import whole_file
from tensortap.runs import tables

ROWS = 122_880  # of a row group: what DuckDB reads at once
LEVELS = ("project", "date")


class Unreadable(Exception):
    """A run cannot be read as a whole."""


def write(
    folder: str, patterns: list[str], project: str | None, *, partial: bool
) -> tuple[int, int]:
    """Write all tables of the runs at some paths; return points and damaged bytes left out."""
    try:
        runs = tables.open_many(patterns)
    except FileNotFoundError as error:
        raise Unreadable(str(error)) from None
    lost = [write_run(folder, path, project, partial=partial) for path in runs.names]
    return sum(points for points, _ in lost), sum(size for _, size in lost)


def write_points(
    out: str, path: str, pattern: str, steps: tuple[int, int], *, partial: bool
) -> int:
    """Write the points of one run into one file; return the number of points left out."""
    import pyarrow as pa

    table = tables.make_table("points", {path: path}, pattern, steps=steps, partial=partial)
    reader = pa.RecordBatchReader.from_stream(table)
    with whole_file(out) as part:
        write_file(reader.schema, _grouped(pa, reader), part)
    return table.lost[1]


def write_run(folder: str, path: str, project: str | None, *, partial: bool) -> tuple[int, int]:
    """Write all tables of one run; return points and damaged bytes left out."""
    paths = {path: tables.mirror_of(path)}
    [about] = _rows(tables.make_table("runs", paths, fields=["start", "error"]))
    if about["error"] is not None:
        raise Unreadable(about["error"])
    levels = {"project": project, "date": about["start"].strftime("%Y-%m-%d")}
    inner = [f"{name}={levels[name]}" for name in LEVELS if levels[name] is not None]
    points = size = 0
    for name in tables.TABLES:
        table = tables.make_table(name, paths, partial=partial)
        out = os.path.join(folder, name, *inner, f"{run_id(path)}.parquet")
        write_table(table, out)
        remove_others(os.path.join(folder, name), out)
        points, size = max(points, table.lost[1]), max(size, table.lost[2])
    return points, size


def run_id(path: str) -> str:
    """Return a file name for a run, the same each time: its own name, and where it is."""
    whole = path if is_url(path) else os.path.abspath(path)
    name = re.sub(r"[^\w.-]", "_", os.path.basename(whole))[:100]
    return f"{name}-{hashlib.sha256(os.fsencode(whole)).hexdigest()[:8]}"


def remove_others(folder: str, kept: str) -> None:
    """Remove what an earlier export of the same run wrote for another date or project."""
    name = glob.escape(os.path.basename(kept))
    for other in glob.glob(os.path.join(glob.escape(folder), "**", name), recursive=True):
        if os.path.abspath(other) != os.path.abspath(kept):
            os.remove(other)


def write_table(table: _core.Table, out: str) -> None:
    """Write one file; none if there are no rows."""
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(table)
    groups = _grouped(pa, reader)
    first = next(groups, None)
    if first is not None:
        os.makedirs(os.path.dirname(out), exist_ok=True)
        with whole_file(out) as part:
            write_file(reader.schema, itertools.chain([first], groups), part)
    elif os.path.exists(out):
        os.remove(out)


def write_file(schema: Any, groups: Iterable[Any], out: str) -> None:
    """Write groups of rows: texts by dictionary, numbers by what packs them best, zstd."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def named(test: Any) -> list[str]:
        return [field.name for field in schema if test(field.type)]

    floats = named(pa.types.is_floating)
    climbing = [name for name in ("step", "time") if name in schema.names]
    others = [name for name in schema.names if name not in floats and name not in climbing]
    encodings = dict.fromkeys(floats, "BYTE_STREAM_SPLIT")
    encodings |= dict.fromkeys(climbing, "DELTA_BINARY_PACKED")
    with pq.ParquetWriter(
        out, schema, compression="zstd", use_dictionary=others, column_encoding=encodings
    ) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=ROWS)


def _grouped(pa: Any, reader: Any) -> Iterator[Any]:
    """Yield tables of ROWS rows, the last one shorter; each has one dictionary a column."""
    held: list[Any] = []
    count = 0
    try:
        for batch in reader:
            held.append(batch)
            count += batch.num_rows
            while count >= ROWS:
                whole = pa.Table.from_batches(held).unify_dictionaries().combine_chunks()
                yield whole.slice(0, ROWS)
                held = whole.slice(ROWS).to_batches()
                count -= ROWS
    except (OSError, pa.ArrowException) as error:
        raise Unreadable(str(error)) from None
    if count:
        yield pa.Table.from_batches(held).unify_dictionaries().combine_chunks()


def _rows(table: _core.Table) -> list[dict[str, Any]]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.table(table).to_pylist()
    return rows
