"""Draw the call graph of a recorded run, coloured by what its tensors were like.

    run_graph(tt.open("runs/today"), color="nan").draw("graph.svg")

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tensortap.spy.digraph import Digraph
from tensortap.spy.trace_graph import ROOT, Node, TracedPath, construct_graph, fold

PREFIX = "activation/"
NONFINITE = ("nan", "posinf", "neginf")
RAMP = ((255, 255, 255), (254, 217, 118), (240, 90, 50))  # none, some, most
ALARM = "#d00000"

Found = dict[int, list[tuple[str, float]]]  # id of a node -> (path, value) of what it stands for


def run_graph(
    run: Any,
    color: str | None = None,
    *,
    show_repetition: bool = True,
    prune_leaves_flag: bool = False,
    squash_name: bool = False,
) -> Digraph:
    """Make the graph of the modules whose outputs a run holds, with their shapes.

    *color*: "nan" (NaN and Inf ever seen, and where the first was born), "size" (elements),
    "time" (ms a step, with what is called inside), or a statistic ("absmax", "std", ...: the
    latest; of repeated layers the largest, and which one it is).
    """
    names = [name for name in run.names() if name.startswith(PREFIX)]
    if not names:
        raise ValueError("the run has no module outputs (no site activation/...) to draw")
    paths = {name: _path(name) for name in names}
    tree, nodes = fold(TracedPath(paths[name], _shape(run, name)) for name in names)
    if color is None:
        return construct_graph(tree, show_repetition, prune_leaves_flag, squash_name)
    found: Found = {}
    for name, value in _values(run, names, color):
        found.setdefault(id(nodes[paths[name]]), []).append((paths[name], value))
    first = run.first_nonfinite.name if color == "nan" and run.first_nonfinite else None
    if color == "time":
        found = _inclusive(tree, found)
    scale = [_most(of)[1] for of in found.values()]

    def attributes(stood_for: list[Node], label: str) -> dict[str, str]:
        own = [pair for node in stood_for for pair in found.get(id(node.origin or node), [])]
        if not own:
            return {}
        if color == "nan":
            return _bad(label, own, first)
        path, value = _most(own)
        which = _indices(path) if len(own) > 1 and color not in ("size", "time") else ""
        text = _text(value, color) + (f" in {which}" if which else "")
        return {"label": f"{label}\n{text}", **_filled(_shade(value, scale))}

    graph = construct_graph(tree, show_repetition, prune_leaves_flag, squash_name, attributes)
    graph.attr(label=_legend(run, color), labelloc="t")
    return graph


def _path(name: str) -> str:
    return ROOT if name.endswith("(root)") else name.removeprefix(PREFIX)


def _shape(run: Any, name: str) -> str:
    steps = run.series(name, "count")[0]
    if not len(steps):
        return ""
    return f"→ {list(run.stats(name, int(steps[-1])).shape)}"


def _is_of(name: str, path: str) -> bool:
    """Tell whether a site is a module's output, or one of its parameters or gradients."""
    if name.startswith(PREFIX):
        return _path(name) == path
    owner = name.partition("/")[2].rpartition(".")[0]
    return (owner or ROOT) == path and "/" in name


def _legend(run: Any, color: str) -> str:
    if color == "nan":
        first = run.first_nonfinite
        if first is None:
            return "no NaN and no Inf"
        return f"the first NaN or Inf: {first.name}, step {first.step}"
    if color == "time":
        return "ms a step, with what is called inside"
    what = "elements of the output" if color == "size" else f"latest {color} of the output"
    return what + "; of repeated layers the largest"


# ---- values


def _values(run: Any, names: list[str], color: str) -> Iterator[tuple[str, float]]:
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


def _times(run: Any, names: list[str]) -> Iterator[tuple[str, float]]:
    """Give the ms a step between a module's output and the one before.

    Sums and means, no medians: the clock of a run ticks every few ms, and what a tick
    has too much in one place it has too little in another.
    """
    rank = run.ranks[0]
    moments: list[tuple[int, float, int]] = []  # sites are numbered in order of first output
    for site, name in enumerate(names):
        steps, times = run.series(name, "time", rank=rank)
        moments += [(int(step), float(time), site) for step, time in zip(steps, times, strict=True)]
    moments.sort()
    count = len({step for step, _, _ in moments})
    total = [0.0] * len(names)
    for before, now in pairwise(moments):
        if before[0] == now[0]:
            total[now[2]] += now[1] - before[1]
    for site, name in enumerate(names):
        yield name, total[site] / 1e6 / max(count, 1)


def _inclusive(tree: Node, own: Found) -> Found:
    """Add to each node what lies below it."""
    found: Found = {}
    nodes = [tree]
    for node in nodes:  # each before those below it
        nodes += node.children.values()
    for node in reversed(nodes):
        below = sum(found[id(child)][0][1] for child in node.children.values())
        value = below + sum(value for _, value in own.get(id(node), []))
        found[id(node)] = [(node.name, value)]
    whole = next((child for child in tree.children.values() if child.name == ROOT), None)
    if whole is not None:  # it calls all the others
        found[id(whole)] = [(ROOT, found[id(tree)][0][1])]
    return found


# ---- looks


def _most(pairs: list[tuple[str, float]]) -> tuple[str, float]:
    """Give the largest; NaN is above everything: it is what one looks for."""
    return max(pairs, key=lambda pair: math.inf if math.isnan(pair[1]) else pair[1])


def _indices(path: str) -> str:
    """Give "30" of layers.30.mlp, "2.5" of stages.2.blocks.5.fc."""
    return ".".join(part for part in path.split(".") if part.isdecimal())


def _bad(label: str, own: list[tuple[str, float]], first: str | None) -> dict[str, str]:
    """Give the looks of a node by its NaN and Inf; the first of all stands out."""
    bad = sum(value > 0 for _, value in own)
    if bad > 0:
        text = f"{own[0][1]:.0f} NaN/Inf" if len(own) == 1 else f"NaN/Inf in {bad} of {len(own)}"
        label = f"{label}\n{text}"
    if first is not None and any(_is_of(first, path) for path, _ in own):
        label = f"{label}\nfirst: {first.removeprefix(PREFIX)}"
        return {"label": label, "penwidth": "3", **_filled(ALARM)}
    return {"label": label, "fillcolor": _mix(1.0 if bad > 0 else 0.0)}


def _filled(color: str) -> dict[str, str]:
    return {"fillcolor": color} | ({"fontcolor": "white"} if color == ALARM else {})


def _shade(value: float, scale: list[float]) -> str:
    """Give the colour of a value among all: by magnitude where they are far apart."""
    finite = [x for x in scale if math.isfinite(x)]
    if not math.isfinite(value):
        return ALARM
    low, high = min(finite), max(finite)
    if low > 0 and high / low > 100:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return _mix((value - low) / (high - low) if high > low else 0.5)


def _mix(share: float) -> str:
    step, rest = (0, share * 2) if share < 0.5 else (1, share * 2 - 1)
    pairs = zip(RAMP[step], RAMP[step + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * rest):02x}" for a, b in pairs)


def _text(value: float, color: str) -> str:
    if color == "size":
        return f"{value:,.0f}"
    return f"{value:.3g} ms" if color == "time" else f"{value:.4g}"
