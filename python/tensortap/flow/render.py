"""From a captured chart to a picture.

The core writes DOT; Graphviz, from PyPI's pygraphviz, draws it.  It is imported
when something is drawn.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import itertools
import tempfile
import time
from array import array
from dataclasses import dataclass
from pathlib import Path

from tensortap import _core
from tensortap.display import session
from tensortap.display.graphviz import GraphvizError, draw
from tensortap.flow.html_page import html_page
from tensortap.flow.inherited import FOLDER, PREFIX
from tensortap.flow.looks import Look, looks_of
from tensortap.runs import process

SUFFIXES = (".png", ".svg", ".pdf", ".html", ".dot", ".json")

MOST_AT_FULL_SIZE = 60  # nodes of a PNG


@dataclass
class RenderOutput:
    """Where a chart went.

    Args:
        saved_path: The file that was written, or None.
        displayed: Whether it was displayed.
        node_count: Number of changes in the chart.

    Example:
        >>> from tensortap.flow import RenderOutput
        >>> RenderOutput("chart.png", False, 3).node_count
        3
    """

    saved_path: str | None
    displayed: bool
    node_count: int


@dataclass(frozen=True)
class Destination:
    """Where a chart goes."""

    show: bool | None = None
    save: bool = False
    save_dir: str = FOLDER
    file_prefix: str = PREFIX
    filename: str | None = None

    def path(self) -> Path:
        """Return the file to write; raise ValueError if its suffix is not supported."""
        name = self.filename
        if name is None:
            return self._by_time()
        path = Path(self.save_dir) / name
        if path.suffix.lower() not in SUFFIXES:
            accepted = ", ".join(SUFFIXES)
            raise ValueError(f"{name!r}: the suffix must be one of {accepted}")
        return path

    def _by_time(self) -> Path:
        """Return a name with the time; a second chart in one second does not replace the first."""
        stem = f"{self.file_prefix}_{time.strftime('%Y%m%d_%H%M%S')}"
        path = Path(self.save_dir) / f"{stem}.png"
        for count in itertools.count(2):
            if not (path.exists() or path.with_suffix(".dot").exists()):
                break
            path = Path(self.save_dir) / f"{stem}_{count}.png"
        return path


class Page:
    """The nodes of a chart set on a page; each text and picture is made when it is first needed."""

    def __init__(self, flow: _core.Flow, looks: list[Look]) -> None:
        """Write the DOT text now."""
        self._flow = flow
        self._looks = looks
        self._count = sum(first == i for i, (_, _, first) in enumerate(looks))
        self._engine, self.dot = flow.dot(looks)

    @functools.cached_property
    def svg(self) -> bytes:
        """The page as SVG."""
        return self.draw("svg")

    @functools.cached_property
    def _placed(self) -> str:
        """The DOT text for the engine that draws the chart well."""
        is_small = self._engine == "dot"
        return self.dot if is_small else self._flow.dot(self._looks, self._sizes())[1]

    def draw(self, format: str, *, dpi: int | None = None) -> bytes:
        """Let Graphviz draw the page."""
        return draw(self._placed, format, prog=self._engine, dpi=dpi)

    def png(self) -> bytes:
        """Paint the page; a large one with fewer pixels, which take most of the time."""
        return self.draw("png", dpi=96 if self._count <= MOST_AT_FULL_SIZE else 72)

    def _sizes(self) -> bytes:
        """Let Graphviz measure the nodes, in points."""
        _, somewhere = self._flow.dot(self._looks, bytes(16 * self._count))
        lines = draw(somewhere, "plain", prog="nop2").decode().splitlines()
        sizes = {}
        for line in lines:
            word, *rest = line.split(" ", 5)
            if word == "node":
                sizes[int(rest[0][1:])] = (72 * float(rest[3]), 72 * float(rest[4].split(" ")[0]))
        in_order = (size for _, size in sorted(sizes.items()))
        return array("d", itertools.chain.from_iterable(in_order)).tobytes()


class Drawing(Page):
    """A chart on a page, with equal blocks folded if it is large."""

    def __init__(self, flow: _core.Flow) -> None:
        """Write the DOT text now."""
        self._plain, folded = looks_of(flow)
        self._is_folded = folded != self._plain
        super().__init__(flow, folded)

    def bytes_of(self, suffix: str) -> bytes:
        """Return the contents of a file with this suffix."""
        if suffix == ".dot":
            return self.dot.encode()
        if suffix == ".png":
            return self.png()
        if suffix not in (".json", ".html"):
            return self.svg if suffix == ".svg" else self.draw(suffix[1:])
        json = self._flow.json(self._plain)  # nothing is folded there
        if suffix == ".json":
            return json.encode()
        whole = Page(self._flow, self._plain).svg.decode() if self._is_folded else None
        return html_page(self.svg.decode(), json, whole).encode()


def render(flow: _core.Flow, destination: Destination) -> RenderOutput:
    """Save and show a chart as asked."""
    path = destination.path() if destination.save else None
    drawing = Drawing(flow)
    saved = None
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        saved = _save(drawing, path)
    displayed = _show(drawing, destination.show, saved)
    name = (saved or destination.path()).with_suffix(".svg").name
    try:
        process.keep_chart(name, lambda: drawing.svg)
    except GraphvizError as why:
        session.warn(f"{name} is not in the run: {why}")
    return RenderOutput(None if saved is None else str(saved), displayed, len(flow))


def _save(drawing: Drawing, path: Path) -> Path:
    """Write the chart; where Graphviz fails, its DOT text."""
    try:
        content = drawing.bytes_of(path.suffix.lower())
    except GraphvizError as why:
        instead = path.with_suffix(".dot")
        instead.write_bytes(drawing.bytes_of(".dot"))
        session.warn(f"{path} was not drawn: {why}. The chart is in {instead}")
        return instead
    path.write_bytes(content)
    return path


class _Inline:
    """A chart where it can be seen, and where a terminal's user finds it."""

    def __init__(self, drawing: Drawing, text: str) -> None:
        self._drawing = drawing
        self._text = text

    def _repr_svg_(self) -> str:
        return self._drawing.svg.decode()

    def __repr__(self) -> str:
        return self._text


def _show(drawing: Drawing, show: bool | None, saved: Path | None) -> bool:
    shell = session.ipython()
    is_notebook = shell is not None and getattr(shell, "kernel", None) is not None
    if not (is_notebook if show is None else show):
        return False
    if shell is None:
        hint = "show=True needs IPython or a notebook; save=True writes the chart to a file"
        session.warn(hint, UserWarning)
        return False
    from IPython.display import display

    try:
        _ = drawing.svg  # may fail
        if saved is None and not is_notebook:  # a terminal shows no pictures
            with tempfile.NamedTemporaryFile(
                suffix=".html", prefix=f"{PREFIX}_", delete=False
            ) as page:
                page.write(drawing.bytes_of(".html"))
            saved = Path(page.name)
    except GraphvizError as why:
        session.warn(f"the chart cannot be shown: {why}")
        return False
    display(_Inline(drawing, "tensor flow chart" if saved is None else f"the chart is in {saved}"))
    return True
