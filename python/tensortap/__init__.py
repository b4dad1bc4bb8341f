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

import os
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
    attention,
    compare,
    digest,
    histogram,
    sample,
    spy_save,
    stats,
)
from tensortap.runs.record import record
from tensortap.runs.verify import verify
from tensortap.runs.watch import NonFiniteError, Watched, watch

if TYPE_CHECKING:
    from tensortap import flow as flow
    from tensortap import monitor as monitor
    from tensortap import spy as spy
    from tensortap import trace as trace
    from tensortap import track as track
    from tensortap.display.show import Shown, TextSink
    from tensortap.monitor import HooksManager as HooksManager
    from tensortap.monitor import ModuleMonitor as ModuleMonitor
    from tensortap.monitor import MonitorMixin as MonitorMixin
    from tensortap.monitor import RefinedCoordinateCheck as RefinedCoordinateCheck
    from tensortap.monitor import StorageManager as StorageManager
    from tensortap.monitor import (
        monitor_scaled_dot_product_attention as monitor_scaled_dot_product_attention,
    )
    from tensortap.runs.diff import Diff
    from tensortap.runs.run import NonFinite, Run
    from tensortap.spy import CallTracer, DebugContext, TensorSaver, get_debug_context
    from tensortap.trace import GlobalVariableResult as GlobalVariableResult
    from tensortap.trace import H5PYSaverCallback as H5PYSaverCallback
    from tensortap.trace import LocalVariableResult as LocalVariableResult
    from tensortap.trace import ModelTracer as ModelTracer
    from tensortap.trace import TracedModel as TracedModel
    from tensortap.trace import Variable as Variable
    from tensortap.trace import stack_padded_tensors as stack_padded_tensors
    from tensortap.trace import stack_tensors as stack_tensors
    from tensortap.trace import trace_model as trace_model
    from tensortap.track import auto_diff, var_tracker

__version__ = _core.version

# Names that are imported when somebody asks for them: most programs need few.  Those of
# monitor and trace need torch, so that `import *` does not ask for them.
_LATER = {
    **dict.fromkeys(("flow", "monitor", "spy", "trace", "track"), ""),
    "Run": "runs.run",
    "Shown": "display.show",
    **dict.fromkeys(("CallTracer", "DebugContext", "TensorSaver", "get_debug_context"), "spy"),
    **dict.fromkeys(("HooksManager", "ModuleMonitor", "MonitorMixin"), "monitor"),
    **dict.fromkeys(("RefinedCoordinateCheck", "StorageManager"), "monitor"),
    "monitor_scaled_dot_product_attention": "monitor",
    **dict.fromkeys(("GlobalVariableResult", "LocalVariableResult", "Variable"), "trace"),
    **dict.fromkeys(("H5PYSaverCallback", "ModelTracer", "TracedModel", "trace_model"), "trace"),
    **dict.fromkeys(("stack_padded_tensors", "stack_tensors"), "trace"),
    **dict.fromkeys(("auto_diff", "var_tracker"), "track"),
}

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
    "attention",
    "auto_diff",
    "compare",
    "diff",
    "digest",
    "first_nonfinite",
    "get_debug_context",
    "histogram",
    "open",
    "record",
    "sample",
    "show",
    "spy_save",
    "stats",
    "var_tracker",
    "verify",
    "watch",
]


def open(path: str | os.PathLike[str]) -> Run:
    """Open a run for reading: a folder with all its ranks, or one file of it."""
    from tensortap.runs.run import Run

    return Run(path)


def diff(
    a: Run | str | os.PathLike[str],
    b: Run | str | os.PathLike[str],
    *,
    only: str | None = None,
    steps: tuple[int | None, int | None] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    rename: tuple[str, str] | None = None,
) -> Diff:
    """Compare two runs and find where they part; the result is true if they do.

    *only*: names that match this glob.  *steps*: from the first up to and with the last.
    *rtol*, *atol*: fine is |a - b| <= atol + rtol * |b|, in place of the noise floor.
    *rename*: (old, new), what names of *a* hold is this in *b*; found out if all fit.
    """
    from tensortap.runs import diff

    return diff.diff(a, b, only=only, steps=steps, rtol=rtol, atol=atol, rename=rename)


def first_nonfinite(
    run: Run | str | os.PathLike[str], *, allow: str | None = None
) -> NonFinite | None:
    """Find where the first NaN or Inf of a run was born; None if all values are finite.

    *allow*: a glob of sites that may be so, such as masks filled with -inf.
    """
    from tensortap.runs import diff

    return diff.first_nonfinite(run, allow=allow)


def show(x: object, /, *, file: TextSink | None = None, color: bool | None = None) -> None:
    """Print one line about a tensor, or a tree of the tensors in a container or module.

    In a notebook the same appears as coloured text below the cell.  Nothing is
    returned, so that it appears once; `Shown(x)` is the text as an object.
    *color* None means: if the output is a terminal and NO_COLOR is not set.
    """
    from tensortap.display import show

    show.show(x, file=file, color=color)


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'tensortap' has no attribute {name!r}")
    from importlib import import_module

    if not _LATER[name]:
        return import_module(f"tensortap.{name}")
    return getattr(import_module(f"tensortap.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


if os.environ.get("TENSORTAP_TRACK"):
    from tensortap.track import environment

    environment.install()
