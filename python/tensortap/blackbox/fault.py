"""Find what is wrong with a step: a value that is not finite, or a loss that jumps.

A fault is an answer of the kind "fault"; its rule, "not finite" or "spike", is the cause of a
black box.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensortap import _core
from tensortap.answers.finding import Finding, Severity
from tensortap.private.optimizers import scale_of

if TYPE_CHECKING:
    from tensortap.blackbox.box import Box

NOT_FINITE = "not finite"


def _fault(rule: str, severity: Severity, sentence: str, step: int, *sites: str) -> Finding:
    return Finding(
        rule, severity, sentence, kind="fault", sites=sites, first_step=step, last_step=step
    )


class FaultFinder:
    """Remembers the first fault of a black box until it has been written."""

    def __init__(self, box: Box, on_spike: bool) -> None:
        """Begin without a fault; *on_spike*: a loss that jumps is one, too."""
        self.box, self.on_spike = box, on_spike
        self.fault: Finding | None = None
        self.losses = _core.Spikes()

    def take_fault(self) -> Finding | None:
        """Return the fault, and forget it."""
        fault, self.fault = self.fault, None
        return fault

    def check_value(self, name: str, step: int, nan: int, posinf: int, neginf: int) -> None:
        """Check a tensor that holds values that are not finite; *name* is its site."""
        kind, _, rest = name.partition("/")
        if self.fault is not None:
            return
        if kind in ("gradient", "activation_gradient") and self._is_scaled():
            return
        what = "NaN" if nan else "Inf" if posinf else "-Inf"
        text = f"loss is {what} ({rest})" if kind == "loss" else f"{what} in {name}"
        self.fault = _fault(NOT_FINITE, "error", text, step, name)

    def check_skipped(self, step: int) -> None:
        """Check a step in which no optimizer has stepped: a scaler may have skipped it."""
        scales = [scale for one in self.box.live_scalers() if (scale := scale_of(one)) is not None]
        if self.fault is None and scales and max(scales) < 1:  # it has been lowered since
            text = "gradients are not finite, at a loss scale of 1 or less"
            self.fault = _fault(NOT_FINITE, "error", text, step)

    def check_loss(self, loss: float, step: int) -> None:
        """Check a loss that is a finite number."""
        if self.losses.see(loss, step) and self.fault is None:
            self.fault = _fault("spike", "warning", f"loss jumps to {loss:.4g}", step)

    def _is_scaled(self) -> bool:
        """Return whether a GradScaler has made gradients larger, and will skip the step.

        It lowers its scale then.  Gradients that overflow at a scale of 1 do so on their own.
        """
        return any((scale_of(one) or 0) > 1 for one in self.box.live_scalers())
