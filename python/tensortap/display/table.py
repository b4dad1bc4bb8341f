"""Tables for notebooks.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from tensortap import _core

LEFT = "style='text-align:left'"


def escape(text: str) -> str:
    """Return a text as HTML, without what a terminal would obey."""
    return html.escape(_core._escape(text))


def table(caption: str, rows: Iterable[Iterable[str]], heads: Iterable[str] = ()) -> str:
    """Return a table as HTML; the first cell of each row is its heading."""
    lines = [f"<tr>{''.join(f'<th {LEFT}>{escape(head)}</th>' for head in heads)}</tr>"] * bool(
        heads
    )
    for first, *rest in rows:
        cells = "".join(f"<td {LEFT}>{escape(cell)}</td>" for cell in rest)
        lines.append(f"<tr><th {LEFT}>{escape(first)}</th>{cells}</tr>")
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"
