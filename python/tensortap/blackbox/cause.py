"""Decide whether something is wrong with a step: a value that is not finite, or a loss that jumps.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tensortap.models.modules import walk

if TYPE_CHECKING:
    from tensortap.blackbox.box import Box

HISTORY = 128  # losses that a new one is compared with
LEAST_HISTORY = 16
SPIKE = 6.0  # standard deviations above the mean


class Fault(NamedTuple):
    """What is wrong, for people, and in which step; *cause* is "not finite" or "spike"."""

    cause: str
    text: str
    step: int


class Judge:
    """Remembers the first fault of a black box until it has been written."""

    def __init__(self, box: Box, on_spike: bool) -> None:
        """Begin without a fault; *on_spike*: a loss that jumps is one, too."""
        self.box, self.on_spike = box, on_spike
        self.fault: Fault | None = None
        self.losses: deque[float] = deque(maxlen=HISTORY)
        self._layers: dict[str, bool] = {}  # by name: is it a layer of torch with weights?

    def take_fault(self) -> Fault | None:
        """Return the fault, and forget it."""
        fault, self.fault = self.fault, None
        return fault

    def see_value(self, name: str, step: int, nan: int, posinf: int, neginf: int) -> None:
        """Look at a tensor that holds values that are not finite; *name* is its site."""
        kind, _, rest = name.partition("/")
        is_only_negative = not nan and not posinf
        if self.fault is not None:
            return
        if kind == "input" and is_only_negative:
            return
        if kind == "activation" and is_only_negative and not self._is_layer(rest):
            return
        if kind in ("gradient", "activation_gradient") and self._is_scaled():
            return
        what = "NaN" if nan else "-Inf" if is_only_negative else "Inf"
        text = f"loss is {what} ({rest})" if kind == "loss" else f"{what} in {name}"
        self.fault = Fault("not finite", text, step)

    def see_skipped(self, step: int) -> None:
        """Look at a step in which no optimizer has stepped: a scaler may have skipped it."""
        scales = [one.get_scale() for one in self.box.live_scalers() if one._scale is not None]
        if self.fault is None and scales and max(scales) < 1:  # it has been lowered since
            text = "gradients are not finite, at a loss scale of 1 or less"
            self.fault = Fault("not finite", text, step)

    def see_loss(self, loss: float, step: int) -> None:
        """Look at a loss that is a finite number."""
        if self.fault is None and _is_spike(loss, self.losses):
            self.fault = Fault("spike", f"loss jumps to {loss:.4g}", step)
        self.losses.append(loss)

    def _is_layer(self, name: str) -> bool:
        """Return whether a module is a layer of torch with weights.

        -Inf in its result is an overflow.  Elsewhere it may be a mask; where it is not, the loss or
        a gradient is not finite either.
        """
        if name not in self._layers:
            self._layers[name] = any(
                prefix + (path or "(root)") == name
                and type(module).__module__.startswith("torch.nn.")
                and any(one is not None for one in module._parameters.values())
                for prefix, model in self.box.live_models()
                for path, module, _ in walk(model)
            )
        return self._layers[name]

    def _is_scaled(self) -> bool:
        """Return whether a GradScaler has made gradients larger, and will skip the step.

        It lowers its scale then.  Gradients that overflow at a scale of 1 do so on their own.
        """
        return any(
            one._scale is not None and one.get_scale() > 1 for one in self.box.live_scalers()
        )


def _is_spike(loss: float, history: Iterable[float]) -> bool:
    """Return whether a loss is far above those before it."""
    before = list(history)
    if len(before) < LEAST_HISTORY or not math.isfinite(loss):
        return False
    mean = statistics.fmean(before)
    spread = max(statistics.pstdev(before, mean), 1e-3 * abs(mean))
    return loss - mean > SPIKE * spread
