"""A directed graph as DOT text, and its picture.

Has the methods of `Digraph` in the PyPI package `graphviz`.  `pygraphviz`, whose wheels contain
Graphviz, draws the picture; the core writes the text.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path

from tensortap import _core
from tensortap.runs import process

_BOXES = {"shape": "box", "style": "rounded,filled", "fillcolor": "white"}
_FORMATS = {"dot", "eps", "gif", "gv", "html", "jpeg", "jpg", "json", "pdf", "png", "ps", "svg"}
MOST = 5000  # nodes and edges of a picture; Graphviz's time grows with the square


def picture_format(path: str | os.PathLike[str]) -> str:
    """Return the format that a file's suffix stands for."""
    format = Path(path).suffix.lstrip(".").lower()
    if format not in _FORMATS:
        what = f"there is no format {format!r}" if format else "the file has no suffix"
        raise ValueError(f"{path}: {what}; use .svg, .png, .pdf, .html or .dot")
    return format


class Digraph:
    """A directed graph; `source` is its text, `render()` its picture."""

    def __init__(self, format: str = "png") -> None:
        """Create an empty graph; *format* is that of the picture."""
        self.format = format
        self._attributes: dict[str, str] = {}
        self._rows: list[tuple[str, str | None, dict[str, str]]] = []

    def attr(self, **attributes: object) -> None:
        """Set attributes of the graph."""
        self._attributes.update({key: str(value) for key, value in attributes.items()})

    def node(self, name: str, label: str | None = None, **attributes: str) -> None:
        """Add a node."""
        shown = attributes if label is None else {"label": label, **attributes}
        self._rows.append((name, None, shown))

    def edge(self, tail: str, head: str, label: str = "") -> None:
        """Add an edge."""
        self._rows.append((tail, head, {"label": label} if label else {}))

    @property
    def source(self) -> str:
        """The graph in the DOT language."""
        return _core._dot(self._attributes, _BOXES, self._rows)

    def render(
        self,
        filename: str | os.PathLike[str] = "graph",
        directory: str | os.PathLike[str] | None = None,
        view: bool = False,
        cleanup: bool = False,
        format: str | None = None,
    ) -> str:
        """Draw the graph into `{filename}.{format}`.

        Args:
            filename: File without the format's suffix.
            directory: Folder of the file. Defaults to the current one.
            view: Open the picture.
            cleanup: Do not leave the DOT text in `filename`.
            format: Instead of the graph's format.

        Returns:
            The path of the picture.
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
        """Return what a notebook displays."""
        return self._picture("svg").decode()

    def draw(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Draw the graph into exactly this file; its suffix is the format."""
        format = format or picture_format(path)
        if format in ("dot", "gv"):
            content = self.source.encode()
        elif format == "html":
            content = self._html().encode()
        else:
            content = self._picture(format)
        Path(path).write_bytes(content)
        if format in ("svg", "png"):
            process.keep_chart(f"{Path(path).stem}.{format}", lambda: content)

    def _picture(self, format: str) -> bytes:
        if len(self._rows) > MOST:
            raise ValueError(
                f"the graph has {len(self._rows)} nodes and edges; Graphviz would take minutes "
                f"or hours for more than {MOST}; fold it (--squash-name, --prune-leaves), "
                "or write a .dot file"
            )
        return picture(self.source, format)

    def _html(self) -> str:
        svg = self._picture("svg").decode()
        return (
            '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>call graph'
            f"</title></head>\n<body>\n{svg[svg.index('<svg') :]}</body>\n</html>\n"
        )


def picture(source: str, format: str) -> bytes:
    """Draw DOT text with Graphviz."""
    from tensortap.display.graphviz import GraphvizError, draw

    try:
        return draw(source, format)
    except GraphvizError as error:
        raise RuntimeError(f"{error} (the DOT text is there without it: graph.source)") from None
