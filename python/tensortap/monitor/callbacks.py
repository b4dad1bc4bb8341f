"""The monitor in other people's training loops: transformers and Lightning.

    Trainer(..., callbacks=[TransformersCallback(monitor)])
    lightning.Trainer(..., callbacks=[LightningCallback(monitor)])

Each library is imported when its class is first asked for.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensortap.monitor.module_monitor import ModuleMonitor

Log = Callable[[int, dict[str, float]], object]


class _Placed:
    """The calls of a step, for a loop that says where it is."""

    def __init__(self, monitor: ModuleMonitor, log: Log | None = None) -> None:
        """Take a monitor whose module is set; *log*: told the step and its metrics."""
        super().__init__()
        self.monitor = monitor
        self.log = log

    def _begin(self, step: int) -> None:
        if not self.monitor._is_open or self.monitor.current_step != step:
            self.monitor.begin_step(step)

    def _measure(self, before_clip: bool) -> None:
        self.monitor.monitor_parameters()
        self.monitor.monitor_gradients(before_clip=before_clip)

    def _end(self) -> None:
        if not self.monitor._is_open:
            return
        self.monitor.end_step()
        metrics = self.monitor.get_step_metrics()
        if self.log is not None and metrics and self.monitor.current_step is not None:
            self.log(self.monitor.current_step, metrics)


def _transformers() -> type:
    from transformers import TrainerCallback

    class TransformersCallback(_Placed, TrainerCallback):  # type: ignore[misc]
        """Measures at every step of a `transformers.Trainer`; gradients are the clipped ones."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Begin the step, before its first micro-batch."""
            self._begin(state.global_step)

        def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """End a micro-batch that is not the last."""
            self.monitor.after_micro_batch()

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Measure after clipping, before the optimizer's step."""
            self._measure(before_clip=False)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """End the step."""
            self._end()

    return TransformersCallback


def _lightning() -> type:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class LightningCallback(_Placed, Callback):  # type: ignore[misc]
        """Measures at every step of a Lightning trainer, before gradients are clipped."""

        def on_train_batch_start(
            self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
        ) -> None:
            """Begin the step, with the first of its batches."""
            self._begin(trainer.global_step)

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            """Measure after backward; Lightning clips only afterwards."""
            self._measure(before_clip=bool(trainer.gradient_clip_val))

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            """End the step if the optimizer has stepped, else a micro-batch."""
            if trainer.global_step != self.monitor.current_step:
                self._end()
            else:
                self.monitor.after_micro_batch()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """End a step that was left without an optimizer's."""
            self._end()

    return LightningCallback


_MAKERS = {"TransformersCallback": _transformers, "LightningCallback": _lightning}


def __getattr__(name: str) -> Any:
    if name not in _MAKERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made = _MAKERS[name]()
    return made
