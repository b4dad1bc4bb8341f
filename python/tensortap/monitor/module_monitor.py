"""ModuleMonitor: metrics of a model while it trains.

    monitor = ModuleMonitor()
    monitor.set_module(model)
    monitor.add_activation_metric("mean")
    for step, (x, y) in enumerate(data):
        monitor.begin_step(step)
        loss(model(x), y).backward()
        monitor.monitor_gradients()
        optimizer.step()
        monitor.end_step()
        log(monitor.get_step_metrics())

Metrics known by name are computed in C (`_core.Metrics`), those the user brings in
`results.py`; both become numbers when the step ends.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import torch

from tensortap import _core
from tensortap.monitor import metric, names
from tensortap.monitor.inherited import default_format_module_name_fn
from tensortap.monitor.measure import Measure
from tensortap.monitor.metric import Aggregation, Function, Metric
from tensortap.monitor.mixin import MonitorMixin
from tensortap.monitor.reference_module import Reference
from tensortap.monitor.storage import StorageManager

if TYPE_CHECKING:
    from tensortap.monitor.inherited import HooksManager

Module = torch.nn.Module


class ModuleMonitor:
    """Measure the activations, parameters and gradients of a module at chosen steps.

    Args:
        monitor_step_fn: Returns whether to measure at a step. Defaults to every 20th.
        format_module_name_fn: Returns the name of a module in the metrics.
        excluded_modules_regex: Do not measure modules whose formatted name matches this.
        logger: Logs what happens.
        cpu_offload: Keep the activations of the reference module on the CPU.

    Example:
        >>> import torch
        >>> from tensortap.monitor import ModuleMonitor
        >>> model = torch.nn.Linear(2, 1)
        >>> monitor = ModuleMonitor(monitor_step_fn=lambda step: step % 100 == 0)
        >>> monitor.set_module(model)
        >>> monitor.add_activation_metric("mean", torch.mean)
        >>> monitor.begin_step(100)
        True
        >>> _ = model(torch.ones(1, 2))
        >>> monitor.end_step()
        >>> list(monitor.get_step_metrics())
        ['activation/[root module]/mean']
    """

    def __init__(
        self,
        monitor_step_fn: Callable[[int], bool] = lambda step: step % 20 == 0,
        format_module_name_fn: Callable[[str], str] = default_format_module_name_fn,
        excluded_modules_regex: str = r"$.^",
        logger: logging.Logger | None = None,
        cpu_offload: bool = False,
    ) -> None:
        metric.check_function("monitor_step_fn", monitor_step_fn)
        metric.check_function("format_module_name_fn", format_module_name_fn)
        if logger is None:
            logger = logging.getLogger("ModuleMonitor")
            if not logger.handlers:
                logger.addHandler(logging.NullHandler())
        self.monitor_step_fn = monitor_step_fn
        self.format_module_name_fn = format_module_name_fn
        self.logger = logger
        self.cpu_offload = cpu_offload
        self.module: Module | None = None
        self.module_names: dict[Module, str] = {}
        self.current_step: int | None = None
        self._last_monitored: int | None = None
        self._is_over = False  # no further step is expected
        self.storage = StorageManager(logger)
        self._excluded = metric.pattern("excluded_modules_regex", excluded_modules_regex)
        self._is_active = False  # within a monitored step
        self._is_open = False  # within any step
        self._pauses = 0
        self._signature = 0
        self._written: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # last step of a writer
        self._metrics: dict[str, dict[str, Metric]] = {kind: {} for kind in metric.KINDS}
        self._reference = Reference(self)
        self._measure = Measure(self)
        self._consumers: list[Any] = [self._measure.core]  # of module calls: on while we measure
        self._reference_consumers = [self._reference.consumer]  # on while the reference is stored
        self._follow()

    # ---- what is measured

    def add_activation_metric(
        self,
        metric_name: str,
        metric_fn: Function | str | None = None,
        metric_regex: str = ".*",
        metric_aggregation_fn: Aggregation | None = None,
    ) -> None:
        """Measure what modules return whose formatted name the regex matches."""
        self._add("activation", metric_name, metric_fn, metric_regex, metric_aggregation_fn)

    def add_activation_difference_metric(
        self,
        metric_name: str,
        metric_fn: Function | str | None = None,
        metric_regex: str = ".*",
        metric_aggregation_fn: Aggregation | None = None,
    ) -> None:
        """Measure what modules return together with what those of the reference returned."""
        self._add(
            "activation_difference", metric_name, metric_fn, metric_regex, metric_aggregation_fn
        )

    def add_parameter_metric(
        self, metric_name: str, metric_fn: Function | str | None = None, metric_regex: str = ".*"
    ) -> None:
        """Measure parameters whose name the regex matches."""
        self._add("parameter", metric_name, metric_fn, metric_regex)

    def add_parameter_difference_metric(
        self, metric_name: str, metric_fn: Function | str | None = None, metric_regex: str = ".*"
    ) -> None:
        """Measure parameters together with those of the reference."""
        self._add("parameter_difference", metric_name, metric_fn, metric_regex)

    def add_gradient_metric(
        self, metric_name: str, metric_fn: Function | str | None = None, metric_regex: str = ".*"
    ) -> None:
        """Measure gradients of parameters whose name the regex matches."""
        self._add("gradient", metric_name, metric_fn, metric_regex)

    def _add(
        self,
        kind: str,
        name: str,
        function: Function | str | None,
        regex: str,
        aggregation: Aggregation | None = None,
    ) -> None:
        if name in self._metrics[kind]:
            raise ValueError(f"there is already a metric {name!r} of kind {kind}")
        self._metrics[kind][name] = metric.make(name, function, regex, aggregation)
        self._measure.forget()

    # ---- the modules

    def set_module(self, module: Module) -> None:
        """Choose the module to monitor, once."""
        if module is None:
            raise ValueError("Module cannot be None: give a torch.nn.Module")
        if self.module is not None:
            raise ValueError("Module has already been set: make another monitor for another module")
        if not isinstance(module, Module):
            raise TypeError(f"module must be a torch.nn.Module, not {type(module).__name__}")
        self.module = module
        self._look()

    def _look(self) -> None:
        """Watch every module that is not watched yet."""
        assert self.module is not None
        signature = self._measure.core.signature(self.module)
        if signature == self._signature:
            return
        self._signature = signature
        self._measure.forget_parameters()
        for name, module, is_called in names.modules(self.module, self.format_module_name_fn):
            if module in self.module_names:
                continue
            self.module_names[module] = name
            if self._is_name_excluded(name):
                continue
            if is_called:
                self._measure.watch(module, name)
            if isinstance(module, MonitorMixin):
                module.set_module_monitor(self, False)

    def close(self) -> None:
        """Leave the module and its reference as they were before.

        Ends a step that is open.  The metrics stay, and another module may be set.  Dropping
        the monitor, or leaving it as a context manager, does the same; twice is harmless.
        """
        try:
            self.end_step()
        finally:
            self._detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        else:  # a step that was cut short is not aggregated
            self._detach()

    def __del__(self) -> None:
        if hasattr(self, "_measure"):
            self._leave_modules()

    def _detach(self) -> None:
        self._is_open = self._is_active = False
        self._is_over = True
        self._leave_modules()
        for module in self.module_names:
            if isinstance(module, MonitorMixin) and module.get_module_monitor() is self:
                module.set_module_monitor(None)
        self._measure.results.drop()
        self._measure.forget_parameters()
        self.module, self.module_names, self._signature = None, {}, 0

    def _leave_modules(self) -> None:
        for check in list(self._reference.checks):
            check._remove()
        self._reference.remove()
        self._measure.hooks.remove_all_hooks()

    def set_reference_module(self, module: Module | None) -> None:
        """Choose the module to compare with, in place of an earlier one; None: none."""
        if self.module is None:
            raise ValueError(
                "Set the module to monitor before its reference: call set_module first"
            )
        self._reference.set(module)

    def has_reference_module(self) -> bool:
        """Return whether there is a reference."""
        return self._reference.module is not None

    def remove_reference_module(self) -> None:
        """Leave the reference as it was before."""
        self._reference.set(None)

    @property
    def reference_module(self) -> Module | None:
        """The module to compare with."""
        return self._reference.module

    @property
    def reference_module_names(self) -> dict[Module, str]:
        """The formatted name of each of its modules."""
        return self._reference.names

    @property
    def reference_module_activations(self) -> dict[str, torch.Tensor]:
        """What its modules returned since the last micro-batch; the first call of each."""
        return {name: calls[0] for name, calls in self._reference.calls.items()}

    @property
    def activation_hooks(self) -> HooksManager:
        """The modules that are watched."""
        return self._measure.hooks

    # ---- steps

    def is_step_monitored(self, step: int) -> bool:
        """Return whether a step is one of those to monitor."""
        return bool(self.monitor_step_fn(step))

    def is_monitoring(self) -> bool:
        """Return whether the module is measured now."""
        return self._is_active and self._pauses == 0

    def begin_step(self, step: int) -> bool:
        """Begin a step, before its forward pass; return whether it is monitored."""
        if not hasattr(step, "__index__") and not isinstance(step, float):
            raise TypeError(f"step must be a number, not {step!r}")
        if self.current_step is not None and step < self.current_step:
            raise ValueError(f"step {step} is smaller than the current step, {self.current_step}")
        is_monitored = self.is_step_monitored(step)
        if is_monitored and self.module is None:
            raise ValueError("there is no module to monitor: call set_module first")
        if step == self.current_step:
            self._measure.results.drop()
            self.storage.log_dict.pop(step, None)
        elif self._is_open:  # a step that an exception kept from its end
            self._close_step()
        self.current_step = step
        self._is_open, self._is_active, self._is_over = True, is_monitored, False
        self._reference.forget()
        if is_monitored:
            self._last_monitored = step
            self.storage.create_step_entry(step)
            self._look()
        self._follow()
        return is_monitored

    @contextmanager
    def no_monitor(self) -> Iterator[None]:
        """Leave forward passes of the module unmeasured; the reference still stores its own."""
        self._pauses += 1
        self._follow()
        try:
            yield
        finally:
            self._pauses -= 1
            self._follow()

    def after_micro_batch(self) -> None:
        """End a micro-batch: the next one is compared with activations of its own."""
        self._reference.forget()

    def end_step(self) -> None:
        """End the step: every metric becomes one number."""
        if self._is_open:
            self._close_step()

    def _close_step(self) -> None:
        step, was_active = self.current_step, self._is_active
        assert step is not None
        self._is_open = self._is_active = False
        self._follow()
        self._reference.forget()
        self._measure.results.store(self.storage, step)
        if was_active:
            self._measure.warn_of_unseen()
        metrics = self.storage.get_step_metrics(step)
        self._measure.recorded.numbers(step, metrics, self._measure.results.undefined)

    def _follow(self) -> None:
        """Switch the consumers of module calls on or off."""
        for consumer in self._consumers:
            consumer.off = not self.is_monitoring()
        for consumer in self._reference_consumers:
            consumer.off = not self._is_storing_reference()

    def _is_storing_reference(self) -> bool:
        return self._is_active and not self._reference.is_checking

    def get_step_metrics(self) -> dict[str, float]:
        """Return the metrics of the current step; before its end those known so far.

        Empty at a step that is not monitored.  After `close()`, or when a trainer of
        `transformers` or Lightning has ended, those of the last monitored step.
        """
        step = self._last_monitored if self._is_over else self.current_step
        return {} if step is None else self._plain(step)

    def get_all_metrics(self) -> dict[int, dict[str, float]]:
        """Return the metrics of every monitored step."""
        return {step: self._plain(step) for step in list(self.storage.log_dict)}

    def _plain(self, step: int) -> dict[str, float]:
        if self._is_open and step == self.current_step:
            return self._measure.results.preview(self.storage, step)
        entry = self.storage.get_step_metrics(step)
        are_numbers = set(map(type, entry.values())) <= {float}
        return dict(entry) if are_numbers else self.storage.aggregated(step)

    # ---- what the program says itself

    def log_scalar(
        self, key: str, value: Any, aggregation_fn: Aggregation | None = None, force: bool = False
    ) -> None:
        """Log a number or a one-element tensor; *force*: at every step."""
        if self.is_monitoring() or force:
            self.storage.log_scalar(self._step_to_log(), key, value, aggregation_fn)

    def log_scalars(self, monitor_dict: Mapping[str, Any], force: bool = False) -> None:
        """Log several numbers; *force*: at every step."""
        for key, value in monitor_dict.items():
            self.log_scalar(key, value, force=force)

    def log_tensor(
        self, key: str, tensor: torch.Tensor, aggregation_fn: Aggregation | None = None
    ) -> None:
        """Log all elements of a tensor, to be aggregated at the end of the step."""
        if isinstance(tensor, torch.Tensor) and self.is_monitoring():
            tensor = tensor.detach().clone()  # as it is now: the program may write to it
        self._log_own(key, tensor, aggregation_fn)

    def _log_own(
        self, key: str, tensor: torch.Tensor, aggregation_fn: Aggregation | None = None
    ) -> None:
        """Log a tensor that nobody else holds."""
        if self.is_monitoring():
            self.storage.log_tensor(self._step_to_log(), key, tensor, aggregation_fn)

    def _step_to_log(self) -> int:
        if self.current_step is None:
            raise ValueError("no step has begun: call begin_step first")
        return self.current_step

    # ---- measuring

    def monitor_activations(
        self, module: Module | str, activations: Any, is_reference: bool = False
    ) -> None:
        """Measure a tensor as if a module had returned it; for values that no module returns."""
        if not (self._is_storing_reference() if is_reference else self.is_monitoring()):
            return
        name = self._name(module, is_reference)
        if self._is_name_excluded(name):
            return
        if is_reference and self.reference_module is None:
            self._warn(f"there is no reference module to store {name} for")
            return
        for path, tensor in _core.find_tensors(activations, name):
            if not self._is_name_excluded(path):
                (self._reference.store if is_reference else self._measure.measure)(path, tensor)

    def monitor_parameters(self) -> None:
        """Measure all parameters as they are now."""
        if self.is_monitoring():
            self._measure.parameters()

    def monitor_gradients(self, before_clip: bool = False) -> None:
        """Measure all gradients as they are now: after backward, before the optimizer's step."""
        if self.is_monitoring():
            self._measure.gradients(before_clip)

    def _name(self, module: Module | str, is_reference: bool) -> str:
        if isinstance(module, str):
            return module
        known = self.reference_module_names if is_reference else self.module_names
        if module not in known:
            which = "the reference" if is_reference else "the monitored module"
            raise ValueError(f"{type(module).__name__} is not a part of {which}")
        return known[module]

    def _warn(self, text: str) -> None:
        self.logger.warning(f"Step {self.current_step}: {text}")

    def _is_name_excluded(self, name: str) -> bool:
        return self._excluded.match(name) is not None

    # ---- elsewhere

    def histograms(self) -> dict[str, list[tuple[float, float, int]]]:
        """Return (low, high, count) of the bins of each "hist" metric, of the latest step."""
        return {
            key.removesuffix("/q05"): [
                (*edges, count) for edges, count in zip(one.edges, one.counts, strict=True)
            ]
            for key, one in self._measure.results.histograms.items()
        }

    def to_tensorboard(self, writer: Any) -> None:
        """Write every step that this writer was not given yet to TensorBoard."""
        last = self._written.get(writer)
        for step in sorted(self.storage.log_dict):
            if (last is not None and step <= last) or (self._is_open and step == self.current_step):
                continue
            for key, value in self._plain(step).items():
                writer.add_scalar(key, value, step)
            self._written[writer] = step
