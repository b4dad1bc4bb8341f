"""The monitor in other people's training loops: transformers and Lightning.

    Trainer(..., callbacks=[TransformersCallback(monitor)])
    lightning.Trainer(..., callbacks=[LightningCallback(monitor)])

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


class _Monitored(trainers.Follower):
    """Measures at every step of a trainer, after gradients are clipped; with Lightning before, too.

    A monitor without a module is given the one that is trained.
    """

    def __init__(self, monitor: ModuleMonitor, log: Log | None = None) -> None:
        """Serve a monitor; *log* is called with each monitored step and its metrics."""
        super().__init__()
        self.monitor = monitor
        self._log = log  # Lightning puts a `log` of its own on callbacks
        self._handles: list[Any] = []

    def training_began(self, model: Any, optimizers: list[Any]) -> None:
        if self.monitor.module is None:
            self.monitor.set_module(model)
        self._handles = [one.register_step_pre_hook(self._on_step) for one in optimizers]

    def _on_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Measure between Lightning's closure, which clips, and the optimizer's step."""
        call = optimizers.after_closure(args, kwargs, self.gradients_ready)
        if call is None:  # it has run: mixed precision, manual optimization
            self.gradients_ready()
        return call

    def step_began(self, step: int) -> None:
        if not self.monitor._is_open or self.monitor.current_step != step:
            self.monitor.begin_step(step)

    def before_clip(self) -> None:
        self.monitor.monitor_gradients(before_clip=True)

    def gradients_ready(self) -> None:
        self.monitor.monitor_parameters()
        self.monitor.monitor_gradients()

    def batch_ended(self, *, is_step: bool) -> bool:
        if is_step:
            self._end()
        else:
            self.monitor.after_micro_batch()
        return False

    def training_ended(self) -> None:
        """End a step that was left in the middle; the metrics are those of the last monitored."""
        for handle in self._handles:
            handle.remove()
        self._end()
        self.monitor._is_over = True

    def _end(self) -> None:
        if not self.monitor._is_open:
            return
        self.monitor.end_step()
        metrics = self.monitor.get_step_metrics()
        if self._log is not None and metrics and self.monitor.current_step is not None:
            self._log(self.monitor.current_step, metrics)


__getattr__ = trainers.made_later(__name__, _Monitored, "Callback")
