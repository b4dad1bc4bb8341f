"""See what the tensors of a program do.

    >>> import tensortap as tt
    >>> tt.show(model)            # a tree: shape, range, mean ± std, NaN and Inf of every tensor
    >>> tt.stats(x).absmax        # one pass over any torch tensor or NumPy array
    >>> tt.compare(a, b)          # where two tensors differ, and by how much

Importing this imports neither torch nor NumPy.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensortap import _core
from tensortap._core import (
    Attention,
    Compare,
    Digest,
    Histogram,
    Sample,
    SampleSlice,
    Stats,
    compare,
    digest,
    histogram,
    stats,
)

if TYPE_CHECKING:
    from tensortap.shown import Shown, TextSink

__version__ = _core.version

__all__ = [
    "Attention",
    "Compare",
    "Digest",
    "Histogram",
    "Sample",
    "SampleSlice",
    "Shown",
    "Stats",
    "__version__",
    "compare",
    "digest",
    "histogram",
    "show",
    "stats",
]


def show(x: object, /, *, file: TextSink | None = None, color: bool | None = None) -> None:
    """Print one line about a tensor, or a tree of the tensors in a container or module.

    In a notebook the same appears as coloured text below the cell.  Nothing is
    returned, so that it appears once; `Shown(x)` is the text as an object.
    *color* None means: if the output is a terminal and NO_COLOR is not set.
    """
    from tensortap import shown

    shown.show(x, file=file, color=color)


def __getattr__(name: str) -> object:
    if name == "Shown":  # not needed by most programs
        from tensortap.shown import Shown

        return Shown
    raise AttributeError(f"module 'tensortap' has no attribute {name!r}")
