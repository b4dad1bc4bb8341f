"""A run in a line and in a table, and the names that somebody may have meant.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tensortap import _core
from tensortap.cloud.stores import public_name
from tensortap.display import table as tables

if TYPE_CHECKING:
    from tensortap.runs.run import Run, Steps


def name(run: Run) -> str:
    """Return what the run was opened by."""
    return public_name(run.url or str(run.path))


def line(run: Run) -> str:
    """Summarise a run in one line."""
    if run.closed:
        return f"<Run {name(run)!r}: closed>"
    parts = {key: _core._escape(text) for key, text in summary(run)}
    shown = [parts[key] for key in ("steps", "sites", "ranks", "size", "state")]
    shown += [
        f"{key}: {parts[key]}" for key in ("dropped", "damaged", "first NaN or Inf") if key in parts
    ]
    return f"<Run {name(run)!r}: {', '.join(shown)}>"


def table(run: Run) -> str:
    """Summarise a run for a notebook."""
    if run.closed:
        return tables.escape(line(run))
    return tables.table(f"Run {name(run)}", summary(run))


def summary(run: Run) -> Iterator[tuple[str, str]]:
    """Return what there is to say, each with its heading."""
    files, first, damage = run.files, None, ""
    steps: Steps | list[int] = []
    try:
        steps, first = run.steps, run.first_nonfinite
    except ValueError as error:
        damage = str(error)
    span = f" ({steps[0]} … {steps[-1]})" if len(steps) else ""
    yield "steps", "unknown steps" if damage else counted(len(steps), "step") + span
    yield "sites", counted(len(run.names()), "site")
    yield "ranks", counted(len(run.ranks), "rank")
    yield "points", str(sum(file.points for file in files))
    yield "size", size(sum(file.bytes for file in files))
    yield "state", run.state
    cost = run.cost
    if cost is not None:
        yield "cost", f"{share(cost)} of the time"
    thinned = [note.text for note in run.notes if note.text.startswith("budget: ")]
    if thinned:
        yield "thinned", thinned[-1].removeprefix("budget: ")
    long = [note.text for note in run.notes if note.text.startswith("thinned: ")]
    if long:
        yield "steps written", long[-1].removeprefix("thinned: ")
    dropped = sum(file.dropped_events for file in files)
    if dropped:
        yield "dropped", counted(dropped, "event")
    damaged = sum(file.damaged_bytes for file in files)
    if damage or damaged:
        yield "damaged", damage or size(damaged)
    if first is not None:
        rank = f", rank {first.rank}" if len(run.ranks) > 1 else ""
        yield "first NaN or Inf", f"{first.name} at step {first.step}{rank}"


def share(part: float) -> str:
    """Return "1.2%" or "less than 0.1%"."""
    return f"{part:.1%}" if part >= 0.001 else "less than 0.1%"


def counted(count: int, what: str) -> str:
    """Return "1 step" or "2 steps"."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def size(count: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def suggest(name: str, names: list[str]) -> str:
    """Name what may have been meant."""
    near = difflib.get_close_matches(name, names, 3, 0.6)
    near += [other for other in names if other.endswith(f"/{name}") and other not in near]
    near += [other for other in names if other.startswith(f"{name}/") and other not in near]
    if near:
        return f"; did you mean {' or '.join(repr(other) for other in near[:3])}?"
    return "; names() gives all" if names else "; nothing was recorded"


def suggest_run(path: Path) -> str:
    """Name the folder that may have been meant."""
    try:
        others = sorted(other.name for other in path.parent.iterdir() if other.is_dir())
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, others, 1, 0.6)
    return f"; did you mean {str(path.parent / near[0])!r}?" if near else ""


def suggest_inside(path: Path) -> str:
    """Name the latest run below a folder that is none itself."""
    files = sorted(path.glob("*/*.tap"), key=lambda file: file.stat().st_mtime)
    return f"; the latest below it is {str(files[-1].parent)!r}" if files else ""
