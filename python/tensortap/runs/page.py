"""A run to look at: the page that `run.report()` writes, and charts in a notebook.

The page and its findings are made in C; this file draws the few curves that a notebook shows.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import html
import itertools
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tensortap import _core
from tensortap.answers.finding import COLORS as COLORS_OF
from tensortap.answers.finding import Findings
from tensortap.runs import arrays

if TYPE_CHECKING:
    from tensortap.runs.run import Run, Steps, Values

    Line = tuple[str, Steps, Values]  # of one name

# Eight colours for lines (Okabe and Ito), which the colour-blind can tell apart.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c6bb1")
ALARM = COLORS_OF["error"]
WIDTH, HEIGHT, LEFT, BOTTOM = 420, 150, 62, 22
MOST_CURVES = 6
MOST_LINES = len(COLORS)


class Plot:
    """A chart of a few lines over the steps, shown by notebooks.

    Attributes:
        svg: The picture.

    Example:
        >>> with tt.record("runs/plot") as run:
        ...     for step in range(3):
        ...         run.log("loss", 1 / (step + 1))
        ...         run.step()
        >>> tt.open("runs/plot").plot("loss").svg.startswith("<svg")
        True
    """

    def __init__(self, title: str, lines: Iterable[Line]) -> None:
        self.svg = draw(title, list(lines))

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, .svg."""
        Path(path).write_text(self.svg, encoding="utf-8")


def summary(run: Run, reader: _core.RunReader) -> str:
    """Return the verdict and the curves as HTML, for a notebook; of a damaged run what is wrong."""
    try:
        items = Findings.read(reader.health(None, None, None, None))._repr_html_()
        names = sorted(run.names(), key=lambda name: "loss" not in name.lower())
        fields = ((name, _curve(reader, name)) for name in names)
        some = itertools.islice(((name, field) for name, field in fields if field), MOST_CURVES)
        curves = "".join(draw(name, _lines(run, name, field)) for name, field in some)
    except ValueError as damage:
        return f"<p>{_text(str(damage))}</p>"
    return f"<div>{items}</div><div>{curves}</div>"


def plot(run: Run, reader: _core.RunReader, pattern: str, field: str) -> Plot:
    """Draw a field of the sites that match."""
    lines: list[Line] = []
    names = run.names(pattern)
    drawn = 0
    for name in names:
        drawn += 1
        wanted = "value" if field == "rms" and _curve(reader, name) == "value" else field
        lines += _lines(run, name, wanted)
        if len(lines) >= MOST_LINES:
            break
    if not lines:
        raise KeyError(f"no site that matches {pattern!r} has the field {field!r}")
    part = f" (the first {drawn} of {len(names)} sites)" if drawn < len(names) else ""
    return Plot(f"{pattern}: {field}{part}", lines[:MOST_LINES])


def _curve(reader: _core.RunReader, name: str) -> str | None:
    """Return the field that is one number a step: of a logged number, of a loss; else None."""
    if arrays.latest(reader, name)[6] & arrays.SCALAR:
        return "value"
    return "mean" if name.startswith("loss/") else None


def _lines(run: Run, name: str, field: str) -> list[Line]:
    several = len(run.ranks) > 1
    lines = []
    for rank in run.ranks:
        try:
            steps, values = run.series(name, field, rank=rank)
        except KeyError:
            continue  # this rank has no such site
        if len(steps):
            lines.append((f"{name} (rank {rank})" if several else name, steps, values))
    return lines[:MOST_LINES]


def _text(text: str) -> str:
    return html.escape(_core._escape(text))


def _thin(steps: Steps, values: Values) -> list[tuple[int, float]]:
    """Keep the least and the largest finite value of what falls on one pixel."""
    kept: list[tuple[int, float]] = []
    width = max(2, math.ceil(len(steps) / (WIDTH - LEFT)))
    for i in range(0, len(steps), width):
        here = zip(steps[i : i + width], values[i : i + width], strict=True)
        some = sorted((point for point in here if math.isfinite(point[1])), key=lambda p: p[1])
        kept += sorted({some[0], some[-1]}) if some else []
    return kept


def draw(title: str, lines: list[Line]) -> str:
    """Return lines over the steps as SVG; steps that are not finite are marked below."""
    thin = [(name, _thin(steps, values)) for name, steps, values in lines]
    ends = [end(steps) for _, steps, _ in lines for end in (min, max)]
    values = [x for _, points in thin for _, x in points]
    first, last = (min(ends), max(ends)) if ends else (0, 1)
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = HEIGHT - BOTTOM - 18

    def x_of(step: float) -> float:
        return LEFT + (step - first) / ((last - first) or 1) * (WIDTH - LEFT - 8)

    def y_of(x: float) -> float:
        return 18 + room * (1 - (x / 2 - low / 2) / ((high / 2 - low / 2) or 1))

    parts = []
    for (name, points), (_, own, raw), color in zip(thin, lines, COLORS, strict=False):
        path = " ".join(f"{x_of(step):.1f},{y_of(x):.1f}" for step, x in points)
        parts.append(
            f"<polyline points='{path}' fill='none' stroke='{color}' stroke-width='1.4'>"
            f"<title>{_text(name)}</title></polyline>"
        )
        bad = [step for step, x in zip(own, raw, strict=True) if not math.isfinite(x)]
        for at in sorted({round(x_of(step)) for step in bad}):
            parts.append(
                f"<rect x='{at - 1}' y='{HEIGHT - BOTTOM - 7}' width='3' height='7'"
                f" fill='{ALARM}'/>"
            )
    labels = [
        (LEFT, 12, "start", title),
        (LEFT - 6, 26, "end", f"{high:.4g}"),
        (LEFT - 6, HEIGHT - BOTTOM, "end", f"{low:.4g}"),
        (LEFT, HEIGHT - 6, "start", str(first)),
        (WIDTH - 8, HEIGHT - 6, "end", f"step {last}"),
    ]
    parts += [
        f"<text x='{x}' y='{y}' text-anchor='{anchor}' font-size='11' fill='currentColor'"
        f" font-family='sans-serif'>{_text(text)}</text>"
        for x, y, anchor, text in labels
    ]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}'"
        f" viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>"
        f"<path d='M{LEFT} 18V{HEIGHT - BOTTOM}H{WIDTH - 8}' fill='none' stroke='#999'/>"
        f"{''.join(parts)}</svg>"
    )
