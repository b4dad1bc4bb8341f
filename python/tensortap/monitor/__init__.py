"""Metrics of activations, parameters and gradients while a model trains.

    monitor = ModuleMonitor(monitor_step_fn=lambda step: step % 10 == 0)
    monitor.set_module(model)
    monitor.add_activation_metric("mean")       # by name: one pass in C
    monitor.add_gradient_metric("largest", lambda g: g.abs().max())

Follows `torch-module-monitor`, whose programs run with only the import changed.
SPDX-License-Identifier: Apache-2.0
"""

from typing import Any

from tensortap.monitor.attention import monitor_scaled_dot_product_attention
from tensortap.monitor.coordinate_check import RefinedCoordinateCheck, l2_norm
from tensortap.monitor.inherited import HooksManager, default_format_module_name_fn
from tensortap.monitor.mixin import MonitorMixin
from tensortap.monitor.module_monitor import ModuleMonitor
from tensortap.monitor.storage import StorageManager

# Without the two of __getattr__: `import *` would need their libraries.
__all__ = [
    "HooksManager",
    "ModuleMonitor",
    "MonitorMixin",
    "RefinedCoordinateCheck",
    "StorageManager",
    "default_format_module_name_fn",
    "l2_norm",
    "monitor_scaled_dot_product_attention",
]


def __getattr__(name: str) -> Any:
    if name in ("LightningCallback", "TransformersCallback"):  # imports its library
        from tensortap.monitor import trainers

        return getattr(trainers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
