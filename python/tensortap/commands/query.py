"""Ask many runs a question in SQL: the Python half of `tensortap query`.

DuckDB answers; this names the tables, and lays out the answer.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import csv
import datetime
import glob
import json
import math
import os
import re
import shutil
import sys
from typing import Any, NoReturn

from tensortap import _core
from tensortap.runs import tables


def fail(text: str, code: int = 3) -> NoReturn:
    """Print what went wrong and exit with this code."""
    print(f"tensortap: {text}", file=sys.stderr)
    raise SystemExit(code)


def print_schema(*, as_json: bool) -> None:
    """Print the tables and what their columns hold."""
    if as_json:
        found = {
            name: [
                {"column": column, "type": kind, "about": text} for column, kind, text in columns
            ]
            for name, _, columns in _core.tables()
        }
        print(json.dumps({"schema": 1, "tables": found}))
        return
    for name, about, columns in _core.tables():
        print(f"{name}: {about}")
        width = max(len(column) for column, _, _ in columns)
        for column, kind, text in columns:
            print(f"  {column:<{width}} {kind:<9} {text}".rstrip())
        print()


def is_parquet(path: str) -> bool:
    """Return whether this is a folder that `export --to parquet` has written."""
    return any(
        glob.iglob(os.path.join(glob.escape(path), "points", "**", "*.parquet"), recursive=True)
    )


def asked_for(sql: str) -> list[str]:
    """Return the tables whose names stand in a query: others are not even opened."""
    words = set(re.findall(r"\w+", sql.lower()))
    return [name for name in tables.TABLES if name in words]


def times_of(table: str) -> str:
    """Return the head of a query that makes times plain, in UTC: DuckDB needs pytz for others."""
    [columns] = [columns for name, _, columns in _core.tables() if name == table]
    times = [
        f"{name} at time zone 'UTC' as \"{name}\""
        for name, kind, _ in columns
        if kind == "timestamp"
    ]
    return f"select *{f' replace ({times[0]})' if times else ''} from"


def name_tables(
    base: Any, sql: str, paths: list[str], *, by_rank: bool, partial: bool
) -> list[_core.Table]:
    """Make the tables of a query known to DuckDB; return those that are read from runs."""
    streams = []
    folders = [path for path in paths if is_parquet(path)]
    others = [path for path in paths if path not in folders]
    runs = tables.open_many(others) if others else tables.Runs([])
    for name in asked_for(sql):
        parts = []
        for folder in folders:
            files = os.path.join(glob.escape(folder), name, "**", "*.parquet")
            if glob.glob(files, recursive=True):  # a table without rows has no file
                quoted = files.replace("'", "''")
                parts.append(f"select * from read_parquet('{quoted}', union_by_name = true)")
        if others or not parts:
            stream = runs.table(name, ranks="all" if by_rank else None, partial=partial)
            streams.append(stream)
            base.register(f"runs_{name}", stream)
            parts.append(f"select * from runs_{name}")
        base.execute(
            f"create view {name} as {times_of(name)} ({' union all by name '.join(parts)})"
        )
    return streams


def plain(value: Any) -> Any:
    """Return a value as JSON and CSV have it."""
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def shown(value: Any) -> str:
    """Return a value for a table on a terminal."""
    if value is None:
        return ""
    return _core.number_text(value) if isinstance(value, float) else str(plain(value))


def print_table(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    """Print an answer in columns, numbers at the right, no wider than the terminal."""
    are_numbers = tuple(
        any(row[i] is not None for row in rows)
        and all(isinstance(row[i], (int, float, type(None))) for row in rows)
        for i in range(len(names))
    )
    cells = [tuple(map(shown, row)) for row in rows]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    print(_core.table_text([tuple(names), are_numbers, *cells], columns=columns), end="")


def print_answer(found: Any, options: dict[str, str]) -> None:
    """Print rows as they were asked for."""
    names = [column[0] for column in found.description or ()]
    if "json" in options:
        rows = [dict(zip(names, map(plain, row), strict=True)) for row in found.fetchall()]
        print(json.dumps({"schema": 1, "columns": names, "rows": rows}))
    elif "csv" in options:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        while batch := found.fetchmany(10_000):
            writer.writerows([["" if x is None else plain(x) for x in row] for row in batch])
    elif names:
        print_table(names, found.fetchall())


def report(streams: list[Any]) -> bool:
    """Print what could not be read to standard error; return whether there was anything."""
    runs, points, size = (max((table.lost[i] for table in streams), default=0) for i in range(3))
    said = [f"{runs} runs could not be opened"] if runs else []
    said += [f"{points} points could not be read"] if points else []
    said += [f"{size} bytes are damaged"] if size else []
    if said:
        print(f"tensortap: {', '.join(said)}; they are missing in the answer", file=sys.stderr)
    return bool(said)


def main(options: dict[str, str], words: list[str]) -> None:
    """Answer; *words* are the query and the runs."""
    if "schema" in options:
        print_schema(as_json="json" in options)
        return
    sql, *paths = words
    try:
        import duckdb
    except ImportError:
        fail(f"query needs DuckDB; install it with: {sys.executable} -m pip install duckdb")
    streams: list[_core.Table] = []
    base = duckdb.connect()
    base.execute("set enable_progress_bar = false; set timezone = 'UTC'")
    try:
        streams = name_tables(
            base, sql, paths, by_rank="ranks" in options, partial="partial" in options
        )
        print_answer(base.execute(sql), options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader is gone: no need to say so
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(3) from None
    except (OSError, ValueError) as error:
        fail(str(error))
    except ImportError as error:
        fail(f"{error}; install it for {sys.executable}")
    except duckdb.Error as error:
        for stream in streams:
            if stream.error is not None:
                fail(stream.error)
        fail(str(error), 2)
    if report(streams):
        raise SystemExit(1)
