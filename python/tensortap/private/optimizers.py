"""Hooks of all optimizers, and how GradScaler calls them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

from tensortap.files.frames import frame_at, frames_from
from tensortap.private.capability import Capability, find, register_all

STEPS = Capability(
    "count steps, and read parameters and gradients when an optimizer steps",
    "steps of optimizers, parameters and gradients are not seen",
)


@STEPS.guards(otherwise=False)
def on_steps(before: Any, after: Any) -> bool:
    """Call these before and after each step of any optimizer; return whether torch does."""
    from torch.optim import optimizer

    register_all(
        (optimizer.register_optimizer_step_pre_hook, before),
        (optimizer.register_optimizer_step_post_hook, after),
    )
    return True


def _try_scaler() -> None:
    import torch

    find(torch.amp.GradScaler("cpu"), "_scale", type(None))


SCALER = Capability(
    "know that GradScaler has scaled gradients, and skips steps",
    "whether a GradScaler has scaled gradients is not seen",
    _try_scaler,
)


def stepping_scaler() -> Any:
    """Return the enabled GradScaler whose step() steps the optimizer now, or None."""
    for frame in frames_from(frame_at(1)):
        code = frame.f_code
        if code.co_name == "step" and code.co_filename.endswith("grad_scaler.py"):
            scaler: Any = frame.f_locals.get("self")
            return scaler if hasattr(scaler, "is_enabled") and scaler.is_enabled() else None
    return None


@SCALER.guards(otherwise=None)
def scale_tensor_of(scaler: Any) -> Any:
    """Return the tensor by which a GradScaler multiplies; None: it has not scaled anything yet."""
    return scaler._scale


@SCALER.guards(otherwise=None)
def scale_of(scaler: Any) -> float | None:
    """Return by how much a GradScaler scales; None: it has not scaled anything yet."""
    if not scaler.is_enabled() or scaler._scale is None:
        return None
    return float(scaler.get_scale())


WRAPPED_STEPS = "_patch_step_function"  # of Optimizer: wraps the step of each class, once


def has_stepped_classes(kinds: Any) -> bool:
    """Return whether an optimizer may exist: torch wraps the `step` of its class then."""
    from torch.optim import Optimizer

    steps = (getattr(one, "step", None) for one in kinds)
    return not hasattr(Optimizer, WRAPPED_STEPS) or any(hasattr(s, "hooked") for s in steps)
