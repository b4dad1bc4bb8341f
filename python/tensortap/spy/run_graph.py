"""Draw the call graph of a recorded run, coloured by what its tensors were like.

    run_graph(tt.open("runs/today"), color="nan").draw("graph.svg")

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from tensortap.spy.digraph import Digraph
from tensortap.spy.trace_graph import ROOT, Node, construct_graph, fold

PREFIX = "activation/"
NONFINITE = ("nan", "posinf", "neginf")
RAMP = ((255, 255, 255), (254, 217, 118), (240, 90, 50))  # none, some, most


def run_graph(
    run: Any,
    color: str | None = None,
    *,
    show_repetition: bool = True,
    prune_leaves_flag: bool = False,
    squash_name: bool = False,
) -> Digraph:
    """Make the graph of the modules whose outputs a run holds.

    *color*: "nan" (NaN and Inf ever seen), "size" (elements), "time" (since the output
    before, the median in ms), or a statistic ("absmax", "std", ...: the latest, and the
    largest of folded layers).
    """
    names = [name for name in run.names() if name.startswith(PREFIX)]
    if not names:
        raise ValueError("the run has no module outputs (no site activation/...) to draw")
    paths = {name: ROOT if name.endswith("(root)") else name.removeprefix(PREFIX) for name in names}
    tree, nodes = fold(paths.values())
    values: dict[int, list[float]] = {}
    for name, value in _values(run, names, color) if color is not None else ():
        values.setdefault(id(nodes[paths[name]]), []).append(value)

    def attributes(stood_for: list[Node]) -> dict[str, str]:
        found = [x for node in stood_for for x in values.get(id(node.origin or node), [])]
        if not found:
            return {}
        value = sum(found) if color == "nan" else max(found, key=_order)
        return {"fillcolor": _shade(value, scale, color), "xlabel": _text(value, color)}

    scale = [max(found, key=_order) for found in values.values()]
    return construct_graph(tree, show_repetition, prune_leaves_flag, squash_name, attributes)


def _values(run: Any, names: list[str], color: str) -> Iterable[tuple[str, float]]:
    """Give (site, number) of those that have one."""
    if color == "time":
        yield from _times(run, names)
        return
    for name in names:
        if color == "nan":
            yield name, float(sum(sum(run.series(name, field)[1]) for field in NONFINITE))
        else:
            values = run.series(name, "count" if color == "size" else color)[1]
            if len(values):
                yield name, float(values[-1])


def _times(run: Any, names: list[str]) -> Iterable[tuple[str, float]]:
    moments = sorted((t, name) for name in names for t in run.series(name, "time")[1])
    gaps: dict[str, list[float]] = {}
    for (before, _), (now, name) in pairwise(moments):
        gaps.setdefault(name, []).append((now - before) / 1e6)
    for name, found in gaps.items():
        yield name, sorted(found)[len(found) // 2]


def _order(value: float) -> float:
    """Sort NaN above everything: it is what one looks for."""
    return math.inf if math.isnan(value) else value


def _shade(value: float, scale: list[float], color: str | None) -> str:
    """Give the colour of a value among all: by rank of magnitude where they are far apart."""
    if color == "nan":
        return _mix(1.0 if value > 0 else 0.0)
    finite = [x for x in scale if math.isfinite(x)]
    if not math.isfinite(value):
        return "#d00000"
    low, high = min(finite), max(finite)
    if low > 0 and high / low > 100:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return _mix((value - low) / (high - low) if high > low else 0.5)


def _mix(share: float) -> str:
    step, rest = (0, share * 2) if share < 0.5 else (1, share * 2 - 1)
    pairs = zip(RAMP[step], RAMP[step + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * rest):02x}" for a, b in pairs)


def _text(value: float, color: str | None) -> str:
    if color == "nan":
        return f"{value:.0f} NaN/Inf" if value else ""
    return f"{value:.3g} ms" if color == "time" else f"{value:.4g}"
