"""How the nodes of a chart look: their code, the label of their frame, what is folded.

A frame whose `self` is a module is labelled by the module's path (`h.3.attn`).  In a large chart
blocks that are alike and follow each other (`h.0`, `h.1`, ...) are drawn once, as `h.0-5 x 6`.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any
from weakref import ref

from tensortap import _core
from tensortap.display.blocks import folded
from tensortap.flow.source_text import codes_of
from tensortap.models.modules import walk

Look = tuple[str, str, int]  # code, label of the frame, place of the node that it is drawn as

MOST_UNFOLDED = 40  # nodes
MOST_SEARCHED = 5000  # nodes: looking for blocks takes the square of it


def looks_of(flow: _core.Flow) -> tuple[list[Look], list[Look]]:
    """Return the look of each node, and the same with equal blocks folded if the chart is large."""
    places = flow.places()
    codes = codes_of([place[:4] for place in places])
    labels = _labels([place[1] for place in places], [place[4] for place in places])
    plain = [(code, label, i) for i, (code, label) in enumerate(zip(codes, labels, strict=True))]
    if not MOST_UNFOLDED < len(plain) <= MOST_SEARCHED:
        return plain, plain
    kinds = [(name, code, line, *value) for name, code, line, _, _, *value in places]
    blocks = folded(labels, kinds)
    return plain, [(code, label, first) for code, (label, first) in zip(codes, blocks, strict=True)]


# ---- labels


def _labels(codes: list[CodeType], owners: list[ref[Any] | None]) -> list[str]:
    modules = [owner() if owner is not None else None for owner in owners]
    paths = _paths(modules)
    return [
        _label(code, paths.get(id(module))) for code, module in zip(codes, modules, strict=True)
    ]


def _label(code: CodeType, path: str | None) -> str:
    if not path:  # no module, or the model itself
        return code.co_qualname
    return path if code.co_name == "forward" else f"{path}.{code.co_name}"


def _paths(found: list[Any]) -> dict[int, str]:
    """Return the path of each module within the outermost one in the chart."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    modules = {id(one): one for one in found if isinstance(one, torch.nn.Module)}
    inside: dict[int, list[tuple[str, Any]]] = {}
    for key, module in modules.items():
        try:
            inside[key] = [(path, one) for path, one, _ in walk(module, with_wrappers=True)]
        except Exception:  # one that changes in another thread
            inside[key] = []
    inner = {id(one) for key, below in inside.items() for _, one in below if id(one) != key}
    paths: dict[int, str] = {}
    for key, below in inside.items():
        if key not in inner:
            for path, module in below:
                paths.setdefault(id(module), path)
    return paths
