"""Draw the operators that a bad value went through, as flow's charts are drawn.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

from tensortap import _core
from tensortap.display.blocks import folded
from tensortap.operators.operator import Operator
from tensortap.operators.origin import Origin, loss_of
from tensortap.operators.report import bad_text

MOST_DRAWN = 60  # operators
MOST_SEARCHED = 2000  # ... that repeated layers are looked for in


def dot_of(found: Origin, path: list[Operator], log: list[Operator]) -> str:
    """Return DOT text: what fed the origin, the origin, and its path up to the loss."""
    loss = loss_of(log)
    end = path.index(loss) + 1 if loss is not None and loss in path else len(path)
    drawn = [found.operator, *path[:end]][:MOST_SEARCHED]
    left_out = end + 1 - len(drawn)
    feeding = sorted({one.writer for one in found.operator.operands if one.writer >= 0})
    rows = [*(log[i] for i in feeding), *drawn]
    blocks = folded(
        [_label(row) for row in rows], [(row.name, row.line, row.phase) for row in rows]
    )
    shown = [i for i, (_, first) in enumerate(blocks) if first == i]
    left_out += max(0, len(shown) - MOST_DRAWN)
    shown = shown[:MOST_DRAWN]
    place = {i: number for number, i in enumerate(shown)}
    at = {row.index: place.get(first) for row, (_, first) in zip(rows, blocks, strict=True)}
    edges = {
        (at.get(one.writer if row is found.operator else one.bad_writer), at[row.index])
        for row in drawn
        for one in row.operands
    }
    joined = sorted((a, b) for a, b in edges if a is not None and b is not None and a < b)
    nodes = [_node(rows[i], blocks[i][0]) for i in shown]
    if left_out:
        name, *rest = nodes[-1]
        nodes[-1] = (f"{name}, then {left_out} more", *rest)
    return _core._operators_dot(nodes, joined)


def _label(row: Operator) -> str:
    label = row.module or (row.code.co_qualname if row.code is not None else "outside")
    return label if row.phase == "forward" else f"{label} ({row.phase})"


def _node(row: Operator, label: str) -> tuple[Any, ...]:
    """Return what the chart shows of an operator; operators of one label are in one box."""
    result = next((one for one in row.results if one.bad), row.results[0] if row.results else None)
    text = row.source if result is None else f"{row.source}\n{bad_text(result, 'results')}"
    return (
        row.name,
        row.file,
        text,
        None if row.code is None else row.code.co_qualname,
        label,
        hash(label) & 0xFFFFFFFF or 1,
        row.number,
        "" if result is None else result.dtype or "",
        None if result is None else result.stats,
    )
