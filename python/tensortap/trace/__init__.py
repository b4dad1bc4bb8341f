"""Trace variables of a model by their path: outputs, locals, what lies inside them.

    from tensortap.trace import ModelTracer, stack_tensors

    with ModelTracer(model, ["layers.*", "layers.*.forward.attn"]) as tracer:
        train()
    tracer.results["layers.0.forward.attn"].values

With `torch.distributed` the values of all ranks are gathered on rank 0.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from tensortap.trace.callbacks import TraceCallbackError
from tensortap.trace.hdf5_saver import H5PYSaverCallback
from tensortap.trace.inherited import TracedModel, trace_model
from tensortap.trace.model_tracer import ModelTracer
from tensortap.trace.path_list import PathList, TracePath, paths
from tensortap.trace.results import (
    GlobalVariableResult,
    LocalVariableResult,
    TraceResults,
)
from tensortap.trace.stacking import stack_padded_tensors, stack_tensors
from tensortap.trace.variable import Variable

__all__ = [
    "GlobalVariableResult",
    "H5PYSaverCallback",
    "LocalVariableResult",
    "ModelTracer",
    "PathList",
    "TraceCallbackError",
    "TracePath",
    "TraceResults",
    "TracedModel",
    "Variable",
    "paths",
    "stack_padded_tensors",
    "stack_tensors",
    "trace_model",
]
