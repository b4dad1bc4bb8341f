"""See what the tensors of a program do.

    >>> import tensortap as tt
    >>> tt.show(model)            # a tree: shape, range, mean ± std, NaN and Inf of every tensor
    >>> tt.stats(x).absmax        # one pass over any torch tensor or NumPy array
    >>> tt.compare(a, b)          # where two tensors differ, and by how much
    >>> with tt.record("runs/today", model=model, optimizer=optimizer) as run:
    ...     train()               # what every layer did at every step
    >>> tt.open("runs/today").series("gradient/fc.weight", "l2")

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
    spy_save,
    stats,
)

# At once, not later: importing the file would put it in the place of the function.
from tensortap.record import record
from tensortap.verify import verify
from tensortap.watch import NonFiniteError, Watched, watch

if TYPE_CHECKING:
    import os

    from tensortap.run import Run
    from tensortap.shown import Shown, TextSink
    from tensortap.spy import CallTracer, DebugContext, TensorSaver, get_debug_context

__version__ = _core.version
_OF_SPY = {"CallTracer", "DebugContext", "TensorSaver", "get_debug_context"}

__all__ = [
    "Attention",
    "CallTracer",
    "Compare",
    "DebugContext",
    "Digest",
    "Histogram",
    "NonFiniteError",
    "Run",
    "Sample",
    "SampleSlice",
    "Shown",
    "Stats",
    "TensorSaver",
    "Watched",
    "__version__",
    "compare",
    "digest",
    "get_debug_context",
    "histogram",
    "open",
    "record",
    "show",
    "spy_save",
    "stats",
    "verify",
    "watch",
]


def open(path: str | os.PathLike[str]) -> Run:
    """Open a run for reading: a folder with all its ranks, or one file of it."""
    from tensortap.run import Run

    return Run(path)


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
    if name == "Run":
        from tensortap.run import Run

        return Run
    if name in _OF_SPY:
        from tensortap import spy

        return getattr(spy, name)
    raise AttributeError(f"module 'tensortap' has no attribute {name!r}")
