"""Draw DOT text with Graphviz, from PyPI's pygraphviz.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from tensortap.files.locks import make_lock

_graphviz_lock = make_lock()  # Graphviz has global state


class GraphvizError(Exception):
    """Graphviz is not installed, or failed."""


def draw(dot: str, format: str, *, prog: str = "dot", dpi: int | None = None) -> bytes:
    """Draw DOT text with Graphviz; return the picture."""
    try:
        import pygraphviz
    except ModuleNotFoundError as why:
        raise GraphvizError(f"pygraphviz is missing ({why}); `pip install pygraphviz`") from why
    except ImportError as why:  # its wheels take these from the system
        remedy = "`apt-get install libglib2.0-0 libxext6 libxrender1`, or your system's packages"
        raise GraphvizError(f"pygraphviz cannot be loaded ({why}); {remedy}") from why
    try:
        with _graphviz_lock:
            _load_fonts(Path(pygraphviz.__file__).parent)
            graph = pygraphviz.AGraph(string=dot)
            if dpi is not None:
                graph.graph_attr["dpi"] = str(dpi)
            picture: bytes | None = graph.draw(format=format, prog=prog)
            graph.close()
    except Exception as why:  # also errors that pygraphviz does not expect
        raise GraphvizError(f"Graphviz failed: {why}") from why
    if not picture:
        raise GraphvizError("Graphviz returned no picture")
    return picture


@functools.cache
def _load_fonts(package: Path) -> None:
    """Load the system's fonts for the Fontconfig that pygraphviz's wheels bring along.

    By default it also parses every sample in /usr/share/fontconfig/conf.avail, used or not, and
    prints a warning about each element that it does not know.  What the system's fonts.conf
    includes is still parsed, with warnings.
    """
    for path in (package.parent / "pygraphviz.libs").glob("libfontconfig*"):
        library = ctypes.CDLL(str(path))  # pygraphviz has loaded it already
        library.FcConfigCreate.restype = ctypes.c_void_p
        config = ctypes.c_void_p(library.FcConfigCreate())
        if not library.FcConfigParseAndLoad(config, None, 1):  # no fonts.conf: use the default
            library.FcConfigDestroy(config)
        else:
            library.FcConfigSetCurrent(config)
