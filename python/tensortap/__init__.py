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
    stats,
)
from tensortap.runs.record import record
from tensortap.runs.watch import NonFiniteError, Watched, watch

if TYPE_CHECKING:
    from tensortap import flow as flow
    from tensortap import monitor as monitor
    from tensortap import spy as spy
    from tensortap import trace as trace
    from tensortap import track as track
    from tensortap.display.show import Shown, show
    from tensortap.findings import Finding, Findings, UnhealthyError, assert_healthy, health
    from tensortap.implementations.comparison import Comparison
    from tensortap.implementations.diff import diff
    from tensortap.implementations.models import compare_models
    from tensortap.monitor import HooksManager as HooksManager
    from tensortap.monitor import ModuleMonitor as ModuleMonitor
    from tensortap.monitor import MonitorMixin as MonitorMixin
    from tensortap.monitor import RefinedCoordinateCheck as RefinedCoordinateCheck
    from tensortap.monitor import StorageManager as StorageManager
    from tensortap.monitor import (
        monitor_scaled_dot_product_attention as monitor_scaled_dot_product_attention,
    )
    from tensortap.operators import ops
    from tensortap.runs.diff import first_nonfinite
    from tensortap.runs.foreign import record_arrays
    from tensortap.runs.replay import Replay, replay
    from tensortap.runs.run import Run
    from tensortap.runs.tables import Runs, open_many
    from tensortap.runs.verify import verify
    from tensortap.spy import CallTracer, DebugContext, TensorSaver, get_debug_context, spy_save
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

# Names that are imported on first use: most programs need few.  Those of monitor and trace
# import torch, so `import *` does not include them.
_LATER = {
    name: module
    for module, names in {
        "": "flow monitor spy trace track",
        "display.show": "Shown show",
        "findings": "Finding Findings UnhealthyError assert_healthy health",
        "implementations.comparison": "Comparison",
        "implementations.diff": "diff",
        "implementations.models": "compare_models",
        "monitor": "HooksManager ModuleMonitor MonitorMixin RefinedCoordinateCheck StorageManager "
        "monitor_scaled_dot_product_attention",
        "operators": "ops",
        "runs.diff": "first_nonfinite",
        "runs.foreign": "record_arrays",
        "runs.replay": "Replay replay",
        "runs.run": "Run",
        "runs.tables": "Runs open_many",
        "runs.verify": "verify",
        "spy": "CallTracer DebugContext TensorSaver get_debug_context spy_save",
        "trace": "GlobalVariableResult H5PYSaverCallback LocalVariableResult ModelTracer "
        "TracedModel Variable stack_padded_tensors stack_tensors trace_model",
        "track": "auto_diff var_tracker",
    }.items()
    for name in names.split()
}

__all__ = [
    "Attention",
    "CallTracer",
    "Compare",
    "Comparison",
    "DebugContext",
    "Digest",
    "Finding",
    "Findings",
    "Histogram",
    "NonFiniteError",
    "Replay",
    "Run",
    "Runs",
    "Sample",
    "SampleSlice",
    "Shown",
    "Stats",
    "TensorSaver",
    "UnhealthyError",
    "Watched",
    "__version__",
    "assert_healthy",
    "attention",
    "auto_diff",
    "compare",
    "compare_models",
    "diff",
    "digest",
    "first_nonfinite",
    "get_debug_context",
    "health",
    "histogram",
    "open",
    "open_many",
    "ops",
    "record",
    "record_arrays",
    "replay",
    "sample",
    "show",
    "spy_save",
    "stats",
    "var_tracker",
    "verify",
    "watch",
]


def open(path: str | os.PathLike[str]) -> Run:
    """Open a run for reading.

    Args:
        path: The folder of the run, with the files of all ranks, or one of these files.

    Returns:
        The run. Use it as a context manager, or call `close()`.

    Raises:
        FileNotFoundError: There is no such file or folder, or the folder holds no run.
        ValueError: The file is not a run.

    Example:
        >>> import tensortap as tt
        >>> with tt.record("runs/open") as run:
        ...     run.log("loss", 0.5)
        >>> tt.open("runs/open").names()
        ['loss']
    """
    from tensortap.runs.run import Run

    return Run(path)


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'tensortap' has no attribute {name!r}")
    from importlib import import_module

    if not _LATER[name]:
        return import_module(f"tensortap.{name}")
    found = getattr(import_module(f"tensortap.{_LATER[name]}"), name)
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


if os.environ.get("TENSORTAP_TRACK"):
    from tensortap.track import environment

    environment.install()
