"""What `tensortap.show` prints: containers of tensors as trees.

The core writes the lines and draws the tree; this file finds the tensors.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

from tensortap import _core
from tensortap.display import session

Row = tuple[int, str, str]  # depth, label, text

MOST_ITEMS = 200  # of one container
MOST_ROWS = 5000  # of one tree
DEEPEST = 40
LONGEST_REPR = 60


_ANSI = re.compile(r"\x1b\[([0-9;]*)m")


class TextSink(Protocol):
    """Anything that can be printed to."""

    def write(self, text: str, /) -> object:
        """Write a piece of text."""


class Shown:
    """What `show` prints, as an object: `str` is plain text, a notebook displays it in colour.

    Args:
        x: A tensor, an array, a module, or containers of them. It is read at once; later changes
            do not show.

    Example:
        >>> import numpy as np, tensortap as tt
        >>> tt.Shown(np.ones(2))
        float64[2]  constant 1
    """

    def __init__(self, x: object, /) -> None:
        self._colored = text_of(x, color=True)
        self._plain = _ANSI.sub("", self._colored)

    def __str__(self) -> str:
        return self._plain

    def __repr__(self) -> str:
        return self._plain

    def _repr_html_(self) -> str:
        return as_html(self._colored)


def show(x: object, /, *, file: TextSink | None = None, color: bool | None = None) -> None:
    """Print one line about a tensor, or a tree of the tensors in a container or module.

    A notebook displays the same as coloured text below the cell.  Nothing is returned, so
    that it appears once; `Shown(x)` is the text as an object.

    Args:
        x: A tensor, an array, a module, or containers of them.
        file: What to print to. Defaults to standard output.
        color: Whether to print colours. Defaults to whether the output is a terminal and the
            environment variable NO_COLOR is not set.

    Example:
        >>> import numpy as np, tensortap as tt
        >>> tt.show({"w": np.arange(3.0)})
        dict of 1
        └─ w  float64[3]  0 … 2  mean 1 ± 1  ...
    """
    if file is None and color is None and _display_in_notebook(x):
        return
    sink: Any = sys.stdout if file is None else file
    is_terminal = bool(getattr(sink, "isatty", lambda: False)())
    if color is None:
        color = is_terminal and not os.environ.get("NO_COLOR")
    columns = shutil.get_terminal_size().columns if is_terminal else 0
    print(text_of(x, color=color, ascii=not _can_draw(sink), columns=columns), file=sink)


def text_of(x: object, *, color: bool = False, ascii: bool = False, columns: int = 0) -> str:
    """Return the line or the tree of *x*."""
    line = _line(x, color=color, ascii=ascii, columns=columns)
    if line is not None:
        return line
    rows = list(islice(_Walk(color, ascii).rows(x), MOST_ROWS + 1))
    if len(rows) > MOST_ROWS:
        rows[-1] = (0, "", f"more than {MOST_ROWS} lines; show a part of it")
    text = _core.tree_text(rows, color=color, ascii=ascii, columns=columns)
    return text.rstrip("\n")


class _Walk:
    """Yields the rows of a tree, depth first; does not enter a container inside itself."""

    def __init__(self, color: bool, ascii: bool) -> None:
        self.color = color
        self.ascii = ascii
        self.open_ids: set[int] = set()

    def rows(self, value: object, depth: int = 0, label: str = "") -> Iterator[Row]:
        line = _line(value, color=self.color, ascii=self.ascii)
        children = _children(value) if line is None else None
        if line is not None or children is None:
            yield depth, label, line or ""
        elif id(value) in self.open_ids:
            yield depth, label, "(contains itself)" if self.ascii else "↩ contains itself"
        elif depth >= DEEPEST:
            yield depth, label, f"{_title(value)}  (deeper than {DEEPEST})"
        else:
            yield depth, label, _title(value)
            self.open_ids.add(id(value))
            for count, (name, child) in enumerate(children):
                if count == MOST_ITEMS:
                    left = _size(value)
                    more = f"{left - count} more" if left is not None else "more"
                    yield depth + 1, "..." if self.ascii else "…", more
                    break
                yield from self.rows(child, depth + 1, name)
            self.open_ids.discard(id(value))


def _line(x: object, *, color: bool, ascii: bool, columns: int = 0) -> str | None:
    """Return the line of a tensor or a plain value; None for containers."""
    if not isinstance(x, str | bytes | bytearray):
        line = _core.tensor_line(x, color=color, ascii=ascii, columns=columns)
        if line is not None:
            return line
        if _children(x) is not None:
            return None
    return _short(x, ascii)


def _children(x: object) -> Iterable[tuple[str, object]] | None:
    """Return the named items of a container; None if *x* is not a container."""
    names = getattr(x, "_fields", None) if isinstance(x, tuple) else None
    if isinstance(x, Mapping) and not isinstance(x, dict):
        x = dict(x)
    held = _core.children(x, sets=True, modules=True, limit=MOST_ITEMS + 1)
    if held is None or isinstance(x, dict):
        return None if held is None else [(_key(key), value) for key, value in held]
    if names is not None:
        return [(str(name), value) for name, (_, value) in zip(names, held, strict=False)]
    return [(f"[{key}]" if isinstance(key, int) else key, value) for key, value in held]


def _title(x: object) -> str:
    """Return the type and size of a container."""
    name = type(x).__name__
    size = _size(x)
    return name if size is None else f"{name} of {size}"


def _size(x: object) -> int | None:
    if isinstance(x, Mapping | list | tuple | set | frozenset) and not hasattr(x, "_fields"):
        return len(x)
    return None


def _key(key: object) -> str:
    return _clean(key if isinstance(key, str) else _short(key))


def _short(x: object, ascii: bool = False) -> str:
    """Return the shortened repr; the type if the repr fails."""
    if isinstance(x, str | bytes | bytearray) and len(x) > LONGEST_REPR:
        x = x[: LONGEST_REPR + 1]
    try:
        text = repr(x)
    except Exception:
        return f"<{type(x).__name__}>"
    text = _clean(text)
    if ascii:
        text = text.encode("ascii", "backslashreplace").decode("ascii")
    if len(text) > LONGEST_REPR:
        text = text[: LONGEST_REPR - 3] + ("..." if ascii else "…")
    return text


def _clean(text: str) -> str:
    """Keep a label on its line: no control characters, no lone surrogates."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text)
    return text.encode("utf-8", "replace").decode("utf-8")


def _can_draw(sink: object) -> bool:
    """Return whether the sink's encoding has the characters of a tree."""
    encoding = getattr(sink, "encoding", None) or "utf-8"
    try:
        "├─▁█…±".encode(encoding)
    except (LookupError, UnicodeError):
        return False
    return True


def _display_in_notebook(x: object) -> bool:
    """Display in a Jupyter kernel; False anywhere else."""
    if not hasattr(session.ipython(), "kernel"):
        return False
    from IPython.display import display

    display(Shown(x))
    return True


# The colours that the core writes as CSS; both light and dark pages must be readable.
_CSS = {
    "1": "font-weight:bold",
    "2": "opacity:0.6",
    "31": "color:#cc3333",
    "32": "color:#3a9a3a",
    "33": "color:#b58900",
    "35": "color:#a0529a",
    "36": "color:#2a9d9d",
}


def as_html(colored: str) -> str:
    """Turn text with terminal colours into a block of HTML."""
    out: list[str] = []
    is_open = False
    for i, piece in enumerate(_ANSI.split(colored)):
        if i % 2 == 0:
            out.append(html.escape(piece))
            continue
        if is_open:
            out.append("</span>")
        style = ";".join(_CSS[code] for code in piece.split(";") if code in _CSS)
        is_open = bool(style)
        if is_open:
            out.append(f'<span style="{style}">')
    if is_open:
        out.append("</span>")
    return '<pre style="line-height:1.3">' + "".join(out) + "</pre>"
