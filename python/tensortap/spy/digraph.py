"""A directed graph as DOT text, and its picture.

Has what users of the PyPI `graphviz` package expect of a Digraph; the picture is drawn
by `pygraphviz`, whose wheels bring Graphviz along.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import html
import os
import re
import webbrowser
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)")
_FONT = "Helvetica,Arial,DejaVu Sans,sans-serif"  # as in flow's charts
_FORMATS = {"dot", "eps", "gif", "gv", "html", "jpeg", "jpg", "json", "pdf", "png", "ps", "svg"}
_KEYWORDS = {"node", "edge", "graph", "digraph", "subgraph", "strict"}
# What XML cannot hold, and what turns the text around it: control, bidirectional, surrogates.
_UNSEEN = re.compile(
    "[\0-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
MOST = (
    4000  # boxes and arrows of a picture: some seconds of Graphviz's time, which grows by squares
)


def picture_format(path: str | os.PathLike[str]) -> str:
    """Give the format that a file's suffix asks for."""
    format = Path(path).suffix.lstrip(".").lower()
    if format not in _FORMATS:
        what = f"there is no format {format!r}" if format else "the file has no suffix"
        raise ValueError(f"{path}: {what}; take .svg, .png, .pdf, .html or .dot")
    return format


def quoted(text: str) -> str:
    """Give text as DOT has it: in quotes where it needs them."""
    if _PLAIN.fullmatch(text) and text.lower() not in _KEYWORDS:
        return text
    safe = _UNSEEN.sub(_shown, text)
    escaped = safe.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Digraph:
    """A directed graph; `source` is its text, `render()` its picture."""

    def __init__(self, format: str = "png") -> None:
        """Begin with nothing in it; *format* is that of the picture."""
        self.format = format
        self._attributes: dict[str, str] = {}
        self._body: list[str] = []

    def attr(self, **attributes: object) -> None:
        """Set attributes of the graph."""
        self._attributes.update({key: str(value) for key, value in attributes.items()})

    def node(self, name: str, label: str | None = None, **attributes: str) -> None:
        """Add a node."""
        given = attributes if label is None else {"label": label, **attributes}
        shown = " ".join(f"{key}={quoted(value)}" for key, value in given.items())
        shown = f" [{shown}]" if shown else ""
        self._body.append(f"\t{quoted(name)}{shown}\n")

    def edge(self, tail: str, head: str, label: str = "") -> None:
        """Add an edge."""
        shown = f" [label={quoted(label)}]" if label else ""
        self._body.append(f"\t{quoted(tail)} -> {quoted(head)}{shown}\n")

    @property
    def source(self) -> str:
        """Give the graph in the DOT language."""
        head = "".join(f"\t{key}={quoted(value)}\n" for key, value in self._attributes.items())
        body = "".join(self._body)
        font = f'fontname="{_FONT}"'
        boxes = f'node [shape=box style="rounded,filled" fillcolor=white {font}]'
        return f"digraph {{\n\t{font}\n{head}\t{boxes}\n\tedge [{font}]\n{body}}}\n"

    def render(
        self,
        filename: str | os.PathLike[str] = "graph",
        directory: str | os.PathLike[str] | None = None,
        view: bool = False,
        cleanup: bool = False,
        format: str | None = None,
    ) -> str:
        """Draw it into `{filename}.{format}` and give that path.

        *view* opens the picture.  *cleanup* False leaves the DOT text at `filename`.
        """
        format = format or self.format
        base = Path(directory or ".") / filename
        base.parent.mkdir(parents=True, exist_ok=True)
        path = f"{base}.{format}"
        self.draw(path, format)
        if not cleanup and str(base) != path:
            base.write_text(self.source, encoding="utf-8")
        if view:
            webbrowser.open(Path(path).resolve().as_uri())
        return path

    def _repr_svg_(self) -> str:
        """Give what a notebook shows."""
        return self._picture("svg").decode()

    def draw(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Draw it into exactly this file: svg, png, pdf, ... by Graphviz; dot; html."""
        format = format or picture_format(path)
        if format in ("dot", "gv"):
            content = self.source.encode()
        elif format == "html":
            content = self._html().encode()
        else:
            content = self._picture(format)
        Path(path).write_bytes(content)

    def _picture(self, format: str) -> bytes:
        if len(self._body) > MOST:
            raise ValueError(
                f"the graph has {len(self._body)} boxes and arrows; Graphviz would take minutes "
                f"or hours for more than {MOST}; fold it (--squash-name, --prune-leaves), "
                "or write a .dot file"
            )
        return picture(self.source, format)

    def _html(self) -> str:
        svg = self._picture("svg").decode()
        svg = svg[svg.index("<svg") :]
        title = html.escape("call graph")
        return (
            f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>'
            f"</head>\n<body>\n{svg}</body>\n</html>\n"
        )


def picture(source: str, format: str) -> bytes:
    """Draw DOT text with Graphviz."""
    from tensortap.display.graphviz import GraphvizError, draw

    try:
        return draw(source, format)
    except GraphvizError as error:
        raise RuntimeError(f"{error} (the DOT text is there without it: graph.source)") from None
