"""The monitor in other people's training loops: transformers and Lightning.

    Trainer(..., callbacks=[TransformersCallback(monitor)])
    lightning.Trainer(..., callbacks=[LightningCallback(monitor)])

Each library is imported when its class is first asked for.  A monitor without a module is
given the one that is trained.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensortap.models import trainers
from tensortap.runs import optimizers

if TYPE_CHECKING:
    from tensortap.monitor.module_monitor import ModuleMonitor

Log = Callable[[int, dict[str, float]], object]


class _Steps:
    """The steps of a training loop that calls back."""

    def __init__(self, monitor: ModuleMonitor, log: Log | None = None) -> None:
        """Take a monitor; *log* is called with each monitored step and its metrics."""
        super().__init__()
        self.monitor = monitor
        self._log = log  # Lightning puts a `log` of its own on callbacks

    def _take(self, module: Any) -> None:
        if self.monitor.module is None:
            self.monitor.set_module(module)

    def _begin(self, step: int) -> None:
        if not self.monitor._is_open or self.monitor.current_step != step:
            self.monitor.begin_step(step)

    def _measure(self) -> None:
        self.monitor.monitor_parameters()
        self.monitor.monitor_gradients()

    def _finish(self) -> None:
        """End a step that was left in the middle; the metrics are those of the last monitored."""
        self._end()
        self.monitor._is_over = True

    def _end(self) -> None:
        if not self.monitor._is_open:
            return
        self.monitor.end_step()
        metrics = self.monitor.get_step_metrics()
        if self._log is not None and metrics and self.monitor.current_step is not None:
            self._log(self.monitor.current_step, metrics)


def _transformers() -> type:
    class TransformersCallback(_Steps, trainers.transformers().TrainerCallback):  # type: ignore[misc]
        """Measures at every step of a `transformers.Trainer`; gradients are the clipped ones."""

        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
        ) -> None:
            """Take the model that is trained, if the monitor has none."""
            self._take(model)

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Begin the step, before its first micro-batch."""
            self._begin(state.global_step)

        def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """End a micro-batch that is not the last."""
            self.monitor.after_micro_batch()

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Measure after clipping, before the optimizer's step."""
            self._measure()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """End the step."""
            self._end()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """End the last step."""
            self._finish()

    return TransformersCallback


def _lightning() -> type:
    lightning = trainers.lightning()

    class LightningCallback(_Steps, lightning.Callback):  # type: ignore[misc, name-defined]
        """Measures at every step of a Lightning trainer, before and after gradients are clipped."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Stand between Lightning's closure, which clips, and the optimizers' steps."""
            self._take(pl_module)
            self._handles = [
                optimizer.register_step_pre_hook(self._on_optimizer_step)
                for optimizer in trainer.optimizers
            ]

        def _on_optimizer_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
            call = optimizers.after_closure(args, kwargs, self._measure)
            if call is None:  # it has run: mixed precision, manual optimization
                self._measure()
            return call

        def on_train_batch_start(
            self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
        ) -> None:
            """Begin the step, with the first of its batches."""
            self._begin(trainer.global_step)

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            """Measure gradients that are about to be clipped."""
            own = type(pl_module).configure_gradient_clipping
            if (
                trainer.gradient_clip_val
                or own is not lightning.LightningModule.configure_gradient_clipping
            ):
                self.monitor.monitor_gradients(before_clip=True)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            """End the step if the optimizer has stepped, else a micro-batch."""
            if trainer.global_step != self.monitor.current_step:
                self._end()
            else:
                self.monitor.after_micro_batch()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """End the last step."""
            for handle in self._handles:
                handle.remove()
            self._finish()

    return LightningCallback


__getattr__ = trainers.made_later(
    __name__, TransformersCallback=_transformers, LightningCallback=_lightning
)
