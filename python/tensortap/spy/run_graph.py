"""Draw the call graph of a recorded run, coloured by what its tensors were like.

    run_graph(tt.open("runs/today"), color="nan").draw("graph.svg")

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tensortap.models.modules import ROOT
from tensortap.runs.arrays import SCALAR, latest
from tensortap.runs.run import reader_of
from tensortap.spy.digraph import Digraph
from tensortap.spy.trace_graph import Node, construct_graph

PREFIX = "activation/"
NONFINITE = ("nan", "posinf", "neginf")
ADDED = ("nan", "size", "time")  # summed over a module's outputs; otherwise the largest is taken
MOST_OUTPUTS = 3  # in a box
RAMP = ((255, 255, 255), (254, 217, 118), (240, 90, 50))  # none, some, most
ALARM = "#d00000"
LONGEST = 60  # characters of a name


@dataclass(eq=False)
class ModuleNode(Node):
    """A node of the graph: one module, or several identical ones."""

    class_name: str | None = None
    outputs: dict[str, str] = field(default_factory=dict)  # "logits" -> "[8, 10]"; "": the only one
    sites: dict[str, str] = field(default_factory=dict)  # site -> path of the module
    values: dict[str, float] = field(default_factory=dict)  # path -> number


def run_graph(
    run: Any,
    color: str | None = None,
    *,
    show_repetition: bool = True,
    prune_leaves_flag: bool = False,
    squash_name: bool = False,
) -> Digraph:
    """Make the graph of the modules whose outputs a run holds: classes and shapes.

    Layers with equal class, shapes and submodules are one node.

    Args:
        run: A run from `tt.open`.
        color: "nan" (NaN and Inf that were seen, and where the first one appeared), "size"
            (elements), "time" (ms per step, including submodules), or a statistic ("absmax",
            "std", ...: the latest; of repeated layers the largest, and its index).
        show_repetition: Write `name x N` where N layers are one node.
        prune_leaves_flag: Leave out the modules without submodules.
        squash_name: Draw nodes with the same name as one.

    Returns:
        The graph; `.draw(path)` writes it to a file.

    Raises:
        ValueError: The run has no outputs of modules.
    """
    tree = _tree(run)
    if color is not None:
        _measure(run, tree, color)
    first = run.first_nonfinite.name if color == "nan" and run.first_nonfinite else None
    scale = [_most(module.values)[1] for module in _below(tree) if module.values]

    def attributes(same: list[Any], label: str) -> dict[str, str]:
        classes = dict.fromkeys(module.class_name for module in same if module.class_name)
        lines = [label, *classes, *_outputs(same[0], is_top=not same[0].parents)]
        values = {path: value for module in same for path, value in module.values.items()}
        if color is None or not values:
            return {"label": "\n".join(lines)}
        if color == "nan":
            is_first = any(first in module.sites for module in same) or (
                first is not None and any(_is_of(first, path) for path in values)
            )
            return _bad(lines, values, first if is_first else None)
        path, value = _most(values)
        which = _indices(path) if len(values) > 1 and color not in ADDED else ""
        lines.append(_text(value, color) + (f" in {which}" if which else ""))
        return {"label": "\n".join(lines), **_filled(_shade(value, scale))}

    graph = construct_graph(tree, show_repetition, prune_leaves_flag, squash_name, attributes)
    if color is not None:
        graph.attr(label=_legend(run, color), labelloc="t")
    return graph


# ---- the tree


def _tree(run: Any) -> Node:
    """Build a tree with one child per model from the rows that `tensortap show` prints."""
    if not any(name.startswith(PREFIX) for name in run.names()):
        raise ValueError("the run has no module outputs (no site activation/...) to draw")
    rows = reader_of(run).tree(PREFIX + "*")
    classes = run.modules
    tree = ModuleNode("")
    roots: dict[str, ModuleNode] = {}
    for path in (*classes, *(label for depth, label, *_ in rows if depth == 1)):
        if path.endswith(ROOT) and path not in roots:
            roots[path] = _add(tree, path, -1, classes.get(path))
    above = [(tree, "")]  # at each depth: the node, and of an output its name
    for order, (depth, label, kind, is_output, width, sites) in enumerate(rows):
        if depth == 0:  # "activation"
            continue
        sites = [site for site in sites if _is_tensor(run, site)]  # not the metrics of a monitor
        del above[depth:]
        node, output = above[-1]
        if is_output:  # of the module above, or a metric
            output = f"{output}.{label}" if output else label
        elif depth == 1 and label in roots:
            node, output = roots[label], ""
        else:
            parent = roots.get(label[: label.find(":") + 1] + ROOT, tree) if depth == 1 else node
            node, output = _add(parent, label, order, kind), ""
            node.indices = set(map(str, range(width))) if width > 1 else set()
            node.count = len(node.indices)
        above.append((node, output))
        _note(run, node, output, sites)
    for node in [tree, *_below(tree)][::-1]:
        for name, child in list(node.children.items()):
            if not child.children and not child.sites:  # never called, or only metrics
                del node.children[name]
    _join_lists(tree)
    return tree


def _add(parent: Node, label: str, order: int, kind: str | None) -> ModuleNode:
    name = label if len(label) <= LONGEST else f"{label[:LONGEST]}…"
    node = parent.children[label] = ModuleNode(name, first_seen=order, class_name=kind)
    if parent.name:
        node.parents.add(parent.name)
    return node


def _below(tree: Node) -> list[Any]:
    """Return all nodes below one, each before those below it."""
    nodes = list(tree.children.values())
    for node in nodes:
        nodes += node.children.values()
    return nodes


def _is_tensor(run: Any, site: str) -> bool:
    """Return whether a site holds tensors, and not numbers that were logged."""
    return not latest(reader_of(run), site)[6] & SCALAR


def _note(run: Any, module: ModuleNode, output: str, sites: list[str]) -> None:
    """Add the contents of a row to its module."""
    tail = f".{output}" if output else ""
    module.sites |= {site: site.removeprefix(PREFIX).removesuffix(tail) for site in sites}
    if sites:
        point = latest(reader_of(run), sites[0])
        shape = str(list(point[8].shape)) if point[8] is not None else ""
        module.outputs[output] = shape
        if not output and shape:
            module.shapes.add(f"→ {shape}")


def _join_lists(tree: Node) -> None:
    """Join a list of identical layers into one node: `layers x 12`."""
    waiting: list[Any] = list(tree.children.values())
    while waiting:
        node = waiting.pop()
        below = list(node.children.values())
        if not node.sites and len(below) == 1 and len(below[0].indices) > 1:
            kept = {name: getattr(node, name) for name in ("name", "first_seen", "parents")}
            vars(node).update({**vars(below[0]), **kept})
        waiting.extend(node.children.values())


def _outputs(module: ModuleNode, *, is_top: bool) -> list[str]:
    """Return a line for each named output; for the model itself also the unnamed one."""
    named = [f"→ {name} {shape}".rstrip() for name, shape in module.outputs.items() if name]
    if is_top and module.outputs.get(""):
        named.insert(0, f"→ {module.outputs['']}")
    rest = len(named) - MOST_OUTPUTS
    return named if rest <= 1 else [*named[:MOST_OUTPUTS], f"… {rest} more"]


def _is_of(name: str, path: str) -> bool:
    """Return whether a site is one of a module's parameters or gradients."""
    owner, dot, _ = name.partition("/")[2].rpartition(".")
    own = owner if dot else name.partition("/")[2].rpartition(":")[0]
    return not name.startswith(PREFIX) and (own if dot else f"{own}:{ROOT}".lstrip(":")) == path


def _legend(run: Any, color: str) -> str:
    if color == "nan":
        first = run.first_nonfinite
        if first is None:
            return "no NaN and no Inf"
        return f"the first NaN or Inf: {first.name}, step {first.step}"
    if color == "time":
        return "ms per step, including submodules"
    what = "elements of the output" if color == "size" else f"latest {color} of the output"
    return what + "; of repeated layers the largest"


# ---- values


def _measure(run: Any, tree: Node, color: str) -> None:
    """Set the number of each module."""
    for module in _below(tree):
        for site, path in module.sites.items():
            for value in _value(run, site, color):
                before = module.values.get(path)
                if before is None or color in ADDED:
                    module.values[path] = (before or 0.0) + value
                else:
                    module.values[path] = _most({"": before, " ": value})[1]
    if color == "time":
        _measure_time(run, tree)


def _value(run: Any, site: str, color: str) -> Iterator[float]:
    """Yield the number of a site, if it has one."""
    if color == "nan":
        counts = [run.series(site, counted)[1] for counted in NONFINITE]
        yield float(max(map(sum, zip(*counts, strict=True)), default=0))  # in one tensor
    elif color != "time":
        values = run.series(site, "count" if color == "size" else color)[1]
        if len(values) and (values[-1] == values[-1] or _is_bad(run, site)):
            yield float(values[-1])


def _measure_time(run: Any, tree: Node) -> None:
    """Set the time of each node, including the nodes below it."""
    times = dict(_times(run, run.names(PREFIX + "*")))
    for node in reversed(_below(tree)):
        own = sum(times.get(site, 0.0) for site in node.sites)
        below = (child.values[child.name] for child in node.children.values())
        node.values = {node.name: own + sum(below)}


def _is_bad(run: Any, name: str) -> bool:
    """Return whether the latest tensor held NaN or Inf; otherwise the statistic is undefined."""
    return any(run.series(name, field)[1][-1] for field in NONFINITE)


def _times(run: Any, names: list[str]) -> Iterator[tuple[str, float]]:
    """Yield (name, ms per step) between a module's output and the output before it.

    Uses sums and means, not medians: the clock of a run ticks every few ms, so single
    differences are inexact but their errors cancel.
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


# ---- attributes


def _most(values: dict[str, float]) -> tuple[str, float]:
    """Return the largest; NaN is larger than everything, because users look for it."""
    return max(values.items(), key=lambda pair: math.inf if math.isnan(pair[1]) else pair[1])


def _indices(path: str) -> str:
    """Return "30" for layers.30.mlp, "2.5" for stages.2.blocks.5.fc."""
    return ".".join(part for part in path.split(".") if part.isdecimal())


def _bad(lines: list[str], values: dict[str, float], first: str | None) -> dict[str, str]:
    """Return the attributes of a node by its NaN and Inf; the first one stands out."""
    bad = sum(value > 0 for value in values.values())
    if bad > 0:
        count = next(iter(values.values()))
        lines.append(
            f"{count:.0f} NaN/Inf" if len(values) == 1 else f"NaN/Inf in {bad} of {len(values)}"
        )
    if first is not None:
        lines.append(f"first: {first.removeprefix(PREFIX)}")
        return {"label": "\n".join(lines), "penwidth": "3", **_filled(ALARM)}
    return {"label": "\n".join(lines), "fillcolor": _mix(1.0 if bad > 0 else 0.0)}


def _filled(color: str) -> dict[str, str]:
    return {"fillcolor": color} | ({"fontcolor": "white"} if color == ALARM else {})


def _shade(value: float, scale: list[float]) -> str:
    """Return the colour of a value on the scale, which is logarithmic if values are far apart."""
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
