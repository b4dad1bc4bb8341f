"""Draw the call graph of a trace that CallTracer saved.

    tree = build_tree(parse_trace("traces/call_trace.txt"))
    render_graph(tree).render(filename="calls", cleanup=True)      # calls.png

Repeated layers are folded: `layers.0.fc` and `layers.1.fc` are one `layers x 2` with
one `fc` below.  A trace with shapes (`save_trace("x.json")`) has them on its edges.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tensortap.spy.digraph import Digraph
from tensortap.spy.inherited import ROOT
from tensortap.spy.inherited import squash_numeric_indices as squash_numeric_indices


@dataclass(eq=False)
class Node:
    """A name in the tree of calls; `layers.0` and `layers.1` are one node with two indices.

    Args:
        name: The name.
        children: Nodes by name, in order of first call.
        count: Number of distinct indices.
        indices: The indices, as text.
        first_seen: Number of the first call of the trace that it is part of.
        parents: Names of the nodes above.
        shapes: Texts such as "[8, 64] → [8, 10]".

    Example:
        >>> from tensortap.spy import build_tree
        >>> build_tree(["layers.0.fc", "layers.1.fc"]).children["layers"].count
        2
    """

    name: str
    children: dict[str, Node] = field(default_factory=dict)
    count: int = 0
    indices: set[str] = field(default_factory=set)
    first_seen: int = 0
    parents: set[str] = field(default_factory=set)
    shapes: set[str] = field(default_factory=set)


class TracedPath(str):
    """A path of a trace, with the shapes of its call."""

    shapes: str = ""


def parse_trace(path: str | os.PathLike[str]) -> list[str]:
    """Read a trace that `CallTracer.save_trace` wrote.

    Args:
        path: A file with one path on each line, or a Chrome trace (`.json`).

    Returns:
        The paths in the order in which the modules returned.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The trace is empty, or is not one of `CallTracer`.

    Example:
        >>> from pathlib import Path
        >>> from tensortap.spy import parse_trace
        >>> _ = Path("calls.txt").write_text("fc")
        >>> parse_trace("calls.txt")
        ['fc']
    """
    file = Path(path)
    if not file.exists() or file.is_dir():  # a pipe is allowed
        raise FileNotFoundError(f"trace file not found: {file}")
    text = file.read_text(encoding="utf-8", errors="surrogateescape")
    if file.suffix == ".json":
        paths = _parse_chrome(text, file)
    else:
        paths = [line for line in map(str.strip, text.split("\n")) if line]
    if not paths:
        raise ValueError(f"trace file is empty: {file}")
    return paths


def _parse_chrome(text: str, file: Path) -> list[str]:
    try:
        trace = json.loads(text)
        rows = trace["traceEvents"] if isinstance(trace, dict) else trace
        calls = [row for row in rows if row.get("ph") == "X" and "error" not in row.get("args", {})]
        calls.sort(key=_end)  # in order of return, as the lines of a text are
        paths = [TracedPath(row["name"]) for row in calls]
        for path, row in zip(paths, calls, strict=True):
            path.shapes = _shapes(row.get("args", {}))
        return list(paths)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is not a trace that CallTracer saved: {error!r}") from None


def _end(row: dict[str, Any]) -> tuple[float, int]:
    """Return a sort key: the time of return; of two at the same time the inner call is first."""
    return round(row.get("ts", 0) + row.get("dur", 0), 3), -row.get("args", {}).get("depth", 0)


def _shapes(args: dict[str, Any]) -> str:
    before, after = (_side(args.get(key, ())) for key in ("inputs", "outputs"))
    if before == after:
        return after
    return f"{before or '()'} → {after or '()'}"


def _side(tensors: Sequence[str], most: int = 3) -> str:
    """Return the shapes of inputs or outputs; of many the first ones and their number."""
    shown = ", ".join(tensor[max(tensor.find("["), 0) :] for tensor in tensors[:most])
    return shown if len(tensors) <= most else f"{shown}, … ({len(tensors)} in all)"


def build_tree(paths: Iterable[str]) -> Node:
    """Fold a trace into a tree of names.

    A number is an index of the name before it; a number at the beginning is a name. Layers are
    joined by their numbers alone: a trace does not say whether they are alike.

    Args:
        paths: The paths of a trace.

    Returns:
        The root, whose children are the first parts of the paths.

    Example:
        >>> from tensortap.spy import build_tree
        >>> list(build_tree(["layers.0.fc", "layers.1.fc", "head"]).children)
        ['layers', 'head']
    """
    root = Node(ROOT)
    nodes: dict[str, Node] = {}  # a long trace has few
    for order, path in enumerate(paths):
        node = nodes.get(path)
        if node is None:
            node = nodes[path] = _insert(root, path, order)
        shapes = getattr(path, "shapes", "")
        if shapes:
            node.shapes.add(shapes)
    return root


def _insert(root: Node, path: str, order: int) -> Node:
    node = root
    for part in path.split("."):
        if part.isdecimal() and node is not root:
            node.indices.add(part)
            node.count = len(node.indices)
            continue
        if part not in node.children:
            node.children[part] = Node(part, first_seen=order, parents={node.name})
        node = node.children[part]
    return node


def prune_leaves(tree: Node) -> Node:
    """Return a tree without the last part of every path that has several.

    Args:
        tree: A tree from `build_tree`; it is not changed.

    Returns:
        A smaller copy.

    Example:
        >>> from tensortap.spy import build_tree, prune_leaves
        >>> prune_leaves(build_tree(["a.b"])).children["a"].children
        {}
    """
    pruned = _copied(tree)
    waiting = [(tree, pruned)]
    while waiting:
        node, copy = waiting.pop()
        for name, child in node.children.items():
            if node is tree or child.children:
                copy.children[name] = _copied(child)
                waiting.append((child, copy.children[name]))
    return pruned


def _copied(node: Node) -> Node:
    """Copy a node without its children."""
    sets: Any = {name: set(getattr(node, name)) for name in ("indices", "parents", "shapes")}
    return replace(node, children={}, **sets)


def construct_graph(
    tree: Node,
    show_repetition: bool = True,
    prune_leaves_flag: bool = True,
    squash_name: bool = False,
    attributes: Callable[[list[Node], str], dict[str, str]] | None = None,
) -> Digraph:
    """Make the graph of a tree: nodes `n0`, `n1`, ... in order of first call.

    Args:
        tree: A tree from `build_tree`.
        show_repetition: Write `name x N` where there are N indices.
        prune_leaves_flag: Leave out the last part of every path.
        squash_name: Draw nodes with the same name as one.
        attributes: Returns further Graphviz attributes of a box, given the nodes that it stands
            for and its label.

    Returns:
        The graph; its `source` is DOT text.

    Example:
        >>> from tensortap.spy import build_tree, construct_graph
        >>> "layers x 2" in construct_graph(build_tree(["layers.0.fc", "layers.1.fc"])).source
        True
    """
    if prune_leaves_flag:
        tree = prune_leaves(tree)
    drawn: dict[Any, list[Node]] = {}  # key: the name or the node -> what it stands for
    edges: dict[tuple[Any, Any], set[str]] = {}
    for parent, node in _walk(tree):
        key = node.name if squash_name else id(node)
        drawn.setdefault(key, []).append(node)
        if parent is not tree:
            above = parent.name if squash_name else id(parent)
            if above != key:
                edges.setdefault((above, key), set()).update(node.shapes)
    order = sorted(drawn, key=lambda key: min(node.first_seen for node in drawn[key]))
    ids = {key: f"n{i}" for i, key in enumerate(order)}
    dot = Digraph()
    dot.attr(rankdir="TB")
    for key in order:
        repeated = sum(len(node.indices) for node in drawn[key])
        name = drawn[key][0].name
        label = f"{name} x {repeated}" if show_repetition and repeated > 1 else name
        more = attributes(drawn[key], label) if attributes is not None else {}
        dot.node(ids[key], **{"label": label, **more})
    for (above, below), shapes in edges.items():
        dot.edge(ids[above], ids[below], _edge_label(shapes))
    return dot


def _walk(tree: Node) -> Iterator[tuple[Node, Node]]:
    """Yield (parent, node) of everything that is drawn, from the top; the path `root` is not."""
    waiting = [(tree, child) for child in tree.children.values()]
    waiting.reverse()
    while waiting:
        parent, node = waiting.pop()
        if parent is tree and node.name == ROOT and not node.children:
            continue
        yield parent, node
        waiting.extend((node, child) for child in reversed(node.children.values()))


def _edge_label(shapes: set[str]) -> str:
    if not shapes:
        return ""
    first = min(shapes, key=lambda text: (len(text), text))
    return first if len(shapes) == 1 else f"{first} …"


def apply_graph_render_options(
    dot: Digraph, dpi: int = 150, figwidth: float | None = None, figheight: float | None = None
) -> None:
    """Set the resolution and the size of a graph.

    Args:
        dot: The graph to change.
        dpi: Pixels per inch.
        figwidth: Width to fill, in inches.
        figheight: Height to fill, in inches.

    Example:
        >>> from tensortap.spy import apply_graph_render_options, build_tree, construct_graph
        >>> graph = construct_graph(build_tree(["fc"]))
        >>> apply_graph_render_options(graph, dpi=99)
        >>> "dpi=99" in graph.source
        True
    """
    dot.attr(dpi=str(dpi))
    if figwidth is not None or figheight is not None:
        width = "" if figwidth is None else figwidth
        height = "" if figheight is None else figheight
        dot.attr(size=f"{width},{height}!", ratio="fill")


def render_graph(
    tree: Node,
    show_repetition: bool = True,
    prune_leaves_flag: bool = True,
    squash_name: bool = False,
    dpi: int = 150,
    figwidth: float | None = None,
    figheight: float | None = None,
) -> Digraph:
    """Make the graph of a tree with all its options; `.render()` writes it to a file.

    Args:
        tree, show_repetition, prune_leaves_flag, squash_name: As for `construct_graph`.
        dpi, figwidth, figheight: As for `apply_graph_render_options`.

    Returns:
        The graph. No file is written yet.

    Example:
        >>> from tensortap.spy import build_tree, render_graph
        >>> render_graph(build_tree(["fc"])).render("calls", format="svg")
        'calls.svg'
    """
    dot = construct_graph(tree, show_repetition, prune_leaves_flag, squash_name)
    apply_graph_render_options(dot, dpi, figwidth, figheight)
    return dot


def save_tree_json(tree: Node, path: str | os.PathLike[str]) -> None:
    """Write a tree as JSON.

    Args:
        tree: A tree from `build_tree`.
        path: The file to write.

    Raises:
        ValueError: The tree is too deep for JSON.

    Example:
        >>> from tensortap.spy import build_tree, save_tree_json
        >>> save_tree_json(build_tree(["fc"]), "tree.json")
    """
    try:
        text = json.dumps(_as_dict(tree), indent=2)
    except RecursionError:
        raise ValueError(
            f"{path}: the tree is too deep for JSON; draw it without --save-json"
        ) from None
    Path(path).write_text(text, encoding="utf-8")


def _as_dict(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "count": len(node.indices),
        "indices": sorted(node.indices),
        "children": [_as_dict(child) for child in node.children.values()],
    }
