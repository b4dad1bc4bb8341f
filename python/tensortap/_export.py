"""Write a run in a format that needs a library of Python's: the inner half of `tensortap export`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

FIELDS = ("count", "nan", "posinf", "neginf", "zeros", "min", "max", "absmax", "sum", "mean")
DERIVED = ("std", "l1", "l2", "rms")
COLUMNS = ("site", "step", "value", *FIELDS, *DERIVED)


def fail(text: str) -> NoReturn:
    """Say what went wrong on one line and leave with exit code 3."""
    print(f"tensortap: {text}", file=sys.stderr)
    raise SystemExit(3)


def matches(glob: str, name: str) -> bool:
    """Match as the core does: `*` and `?` alone are special, `a,b` is a union."""
    special = {"*": ".*", "?": "."}
    for part in glob.split(","):
        pattern = "".join(special.get(letter, re.escape(letter)) for letter in part)
        if re.fullmatch(pattern, name, re.DOTALL):
            return True
    return False


def names(run: Any, glob: str) -> list[str]:
    """Return the sites that match."""
    return [name for name in run.names() if matches(glob, name)]


def in_range(steps: str, step: int) -> bool:
    """Tell whether a step is in A:B, with both ends."""
    first, colon, last = steps.partition(":")
    if not colon:
        return step == int(first)
    return (not first or step >= int(first)) and (not last or step <= int(last))


def rows(run: Any, glob: str, steps: str) -> Iterator[tuple[Any, ...]]:
    """Yield every point that matches as a row of COLUMNS."""
    for name in names(run, glob):
        where, values = run.series(name, "value")
        for step, value in zip(where, values, strict=True):
            if in_range(steps, int(step)):
                yield (name, int(step), float(value), *([None] * (len(FIELDS) + len(DERIVED))))
        where, _ = run.series(name, "mean")
        if len(where) == 0:
            continue
        columns = [run.series(name, field)[1] for field in (*FIELDS, *DERIVED)]
        for i, step in enumerate(where):
            if in_range(steps, int(step)):
                yield (name, int(step), None, *(float(column[i]) for column in columns))


def values(run: Any, glob: str, steps: str) -> Iterator[tuple[str, int, Any]]:
    """Yield (site, step, array) of every value that was kept."""
    for name in names(run, glob):
        where, _ = run.series(name, "call")
        for step in dict.fromkeys(int(step) for step in where):
            if not in_range(steps, step):
                continue
            try:
                yield name, step, run.tensor(name, step, as_numpy=True)
            except (KeyError, LookupError, ValueError):
                continue  # statistics only, or made room for newer ones


def to_sqlite(run: Any, glob: str, steps: str, out: str) -> None:
    """Write the table `points`."""
    with sqlite3.connect(out) as base:
        columns = ", ".join(f'"{c}"' for c in COLUMNS)
        base.execute(f"CREATE TABLE points ({columns})")
        marks = ", ".join("?" * len(COLUMNS))
        base.executemany(f"INSERT INTO points VALUES ({marks})", rows(run, glob, steps))
        base.execute("CREATE INDEX points_site_step ON points (site, step)")
    base.close()


def to_parquet(run: Any, glob: str, steps: str, out: str) -> None:
    """Write one row group of points."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [pa.string(), pa.int64(), *([pa.float64()] * (len(COLUMNS) - 2))]
    columns = list(zip(*rows(run, glob, steps), strict=True)) or [()] * len(COLUMNS)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    pq.write_table(pa.table(arrays, names=list(COLUMNS)), out)


def to_hdf5(run: Any, glob: str, steps: str, out: str) -> None:
    """Write statistics as /stats/SITE/FIELD and values as /values/SITE/STEP."""
    import h5py
    import numpy as np

    with h5py.File(out, "w") as file:
        for name in names(run, glob):
            for field in ("value", *FIELDS, *DERIVED):
                where, numbers = run.series(name, field)
                chosen = [in_range(steps, int(step)) for step in where]
                if any(chosen):
                    group = file.require_group(f"stats/{name}")
                    if "step" not in group:
                        group["step"] = np.asarray(where)[chosen]
                    group[field] = np.asarray(numbers)[chosen]
        for name, step, array in values(run, glob, steps):
            file[f"values/{name}/{step}"] = array


def to_tensorboard(run: Any, glob: str, steps: str, out: str) -> None:
    """Write every statistic as a scalar SITE/FIELD."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(out) as writer:
        for row in rows(run, glob, steps):
            site, step, *numbers = row
            for field, number in zip(COLUMNS[2:], numbers, strict=True):
                if number is not None:
                    tag = site if field == "value" else f"{site}/{field}"
                    writer.add_scalar(tag, number, step)


def to_pt(run: Any, glob: str, steps: str, out: str) -> None:
    """Write {"SITE@STEP": tensor} for torch.load(weights_only=True)."""
    import torch

    found = values(run, glob, steps)
    kept = {f"{name}@{step}": torch.as_tensor(array) for name, step, array in found}
    if not kept:
        fail('no values were kept for these sites; record them with keep="value", or use --to csv')
    torch.save(kept, out)


WRITERS = {
    "sqlite": to_sqlite,
    "parquet": to_parquet,
    "hdf5": to_hdf5,
    "tensorboard": to_tensorboard,
    "pt": to_pt,
}
FOLDERS = {"tensorboard"}


def main(arguments: Sequence[str]) -> None:
    """Export; *arguments* are run, glob, format, out and steps, checked by the program."""
    import tensortap

    path, glob, kind, out, steps = arguments
    part = out if kind in FOLDERS else out + ".part"
    try:
        if part != out and os.path.exists(part):
            os.remove(part)
        run = tensortap.open(path)
        WRITERS[kind](run, glob, steps, part)
        if part != out:
            os.replace(part, out)
    except ImportError as error:
        fail(f"--to {kind} needs {error.name}; install it for {sys.executable}")
    except OSError as error:
        fail(f"{out}: {error.strerror or error}")
