"""Draw how tensors flow: every change, line by line, as one chart.

    >>> from tensortap import flow
    >>> flow.on(save=True)
    >>> y = x @ w
    >>> z = torch.relu(y)
    >>> flow.off(filename="block.png")     # value tables, joined by arrows

The calls act on one MonitorRuntime.  Importing this imports neither torch nor
Graphviz.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from tensortap.flow.render import RenderOutput
from tensortap.flow.runtime import MonitorRuntime

__all__ = [
    "MonitorRuntime",
    "RenderOutput",
    "args",
    "flush",
    "lines",
    "off",
    "on",
    "reset",
    "run",
    "watch",
]

_runtime = MonitorRuntime()

on = _runtime.on
off = _runtime.off
flush = _runtime.flush
lines = _runtime.lines
args = _runtime.args
run = _runtime.run
watch = _runtime.watch
reset = _runtime.reset
