"""Runs a piece of code under tensortap.flow and gives its chart, for the tests of it."""

from __future__ import annotations

import json
import runpy
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

from tensortap import flow

Chart = dict[str, Any]


def capture(folder: Path, source: str, name: str = "prog.py", **options: Any) -> Chart:
    """Run *source* from a file in *folder*, the working directory, and give the chart as JSON."""
    path = folder / name
    path.write_text(textwrap.dedent(source))
    flow.on(save_dir=folder, **options)
    try:
        runpy.run_path(str(path))
    finally:
        output = flow.off(filename="chart.json", save=True, show=False)
    if output is None:
        return {"nodes": [], "edges": []}
    chart: Chart = json.loads((folder / "chart.json").read_text())
    return chart


def names(chart: Chart) -> list[str]:
    return [node["name"] for node in chart["nodes"]]


def arrows(chart: Chart) -> list[str]:
    """Give the arrows as "x->x'", where the second node of a name has a quote, the third two."""
    seen: Counter[str] = Counter()
    name = {}
    for node in chart["nodes"]:
        name[node["id"]] = node["name"] + "'" * seen[node["name"]]
        seen[node["name"]] += 1
    return sorted(f"{name[a]}->{name[b]}" for a, b in chart["edges"])


def edges(chart: Chart) -> list[str]:
    """Give the arrows as "x@3->y@4": names and lines."""
    place = {node["id"]: f"{node['name']}@{node['line']}" for node in chart["nodes"]}
    return [f"{place[a]}->{place[b]}" for a, b in chart["edges"]]
