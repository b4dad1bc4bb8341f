"""Save tensors, trace calls, draw the call graph.

    from tensortap.spy import DebugContext, TensorSaver, spy_save

    with DebugContext(saver, prefix="step0"):
        model(x)  # every spy_save("q", q, self) in it writes a file

SPDX-License-Identifier: Apache-2.0
"""

from tensortap.spy.call_tracer import CallEvent, CallTracer
from tensortap.spy.debugger import BaseDebugger
from tensortap.spy.inherited import squash_numeric_indices
from tensortap.spy.saver import DebugContext, TensorSaver, get_debug_context, spy_save
from tensortap.spy.trace_graph import (
    Node,
    apply_graph_render_options,
    build_tree,
    construct_graph,
    parse_trace,
    prune_leaves,
    render_graph,
    save_tree_json,
)

__all__ = [
    "BaseDebugger",
    "CallEvent",
    "CallTracer",
    "DebugContext",
    "Node",
    "TensorSaver",
    "apply_graph_render_options",
    "build_tree",
    "construct_graph",
    "get_debug_context",
    "parse_trace",
    "prune_leaves",
    "render_graph",
    "save_tree_json",
    "spy_save",
    "squash_numeric_indices",
]
