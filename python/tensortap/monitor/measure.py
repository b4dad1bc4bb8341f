"""Which metrics each name has, and calling them.

Named metrics never come here while a model runs, except for tensors that C cannot read.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch

from tensortap import _core
from tensortap.monitor import metric, names
from tensortap.monitor.hooks import HooksManager, weakly
from tensortap.monitor.metric import Function, Plan
from tensortap.monitor.results import Results
from tensortap.runs import device

if TYPE_CHECKING:
    from tensortap.monitor.module_monitor import ModuleMonitor

GRADIENTS = ("gradient", "gradient_before_clip")
NO_ROW = -2  # what _resolve returns where there is nothing to measure
DENSE = ("sparse", "mkldnn", "quantized")  # what torch can lay out for us


class _Tap:
    """A module on the source of module calls, in the form of a hook's handle."""

    def __init__(self, core: _core.Metrics, module: torch.nn.Module) -> None:
        self.core, self.module = core, module

    def remove(self) -> None:
        self.core.remove(self.module)


class Measure:
    """The metrics of one monitor at work."""

    def __init__(self, monitor: ModuleMonitor) -> None:
        """Begin with no module.

        The monitor owns this, and the modules own what they call: so that a dropped monitor
        goes, nothing here holds it.
        """
        self._monitor = ref(monitor)
        self.core = _core.Metrics(
            weakly(monitor, self._resolve, NO_ROW),
            weakly(monitor, self._on_output),
            weakly(monitor, self._on_unread),
        )
        self.results = Results(self.core)
        self.hooks = HooksManager()
        self.followers: list[Any] = [self.core]  # consumers that are on while we measure
        self._kinds = {name: i for i, name in enumerate(self.core.fields)}
        self._plans: dict[str, Plan] = {}
        self._hist_rows: set[int] = set()
        self._names: dict[int, str] = {}  # of each row: where its tensors come from
        self._parameters: list[tuple[str, str, torch.nn.Parameter]] | None = None  # raw, formatted
        self._of_parameters: dict[str, list[tuple[int, str, Function, str]]] = {}
        self._unread: set[tuple[str, str]] = set()  # of which a warning was given
        self._is_sight_told = False
        # A subclass that measures in its own way is told of every output, by the name it overrides.
        from tensortap.monitor.module_monitor import ModuleMonitor

        self._own = type(monitor).monitor_activations is not ModuleMonitor.monitor_activations
        self.turn(False)

    @property
    def monitor(self) -> ModuleMonitor:
        """The monitor that owns this."""
        monitor = self._monitor()
        assert monitor is not None
        return monitor

    # ---- modules

    def watch(self, module: torch.nn.Module, name: str) -> None:
        """Measure what this module returns."""
        if not names.can_run(module):
            return
        if self._own:
            own = weakly(self.monitor, self.monitor.monitor_activations)
            self.hooks.register_forward_hook(module, lambda _m, _i, output: own(name, output))
            return
        self.core.add(module, name)
        self.hooks.hooks[module] = _Tap(self.core, module)

    def turn(self, on: bool) -> None:
        """Measure what modules do, or do not."""
        for consumer in self.followers:
            consumer.off = not on

    def tell_sight(self) -> None:
        """Say once which modules ran where they cannot be seen."""
        wanted = any(
            self.monitor._metrics[kind] for kind in ("activation", "activation_difference")
        )
        if self._is_sight_told or self.monitor.module is None or not wanted:
            return
        self._is_sight_told = True
        unseen = self.core.unseen()
        if unseen and (len(unseen) == len(self.hooks) or names.is_compiled(self.monitor.module)):
            shown = ", ".join(unseen[:20]) + (", ..." if len(unseen) > 20 else "")
            self.monitor._warn(
                f"{len(unseen)} modules were not seen "
                f"(torch.compile runs a model without calling its modules): {shown}"
            )

    # ---- plans

    def forget(self) -> None:
        """Make all plans anew: a metric has been added."""
        if not self._plans and self._parameters is None:
            return
        self.results.drain(self.monitor.storage, self.monitor.current_step)
        self._plans = {}
        self._parameters = None
        self._hist_rows = set()
        self._names = {}
        self.core.forget()

    def forget_parameters(self) -> None:
        """Make the list of parameters anew."""
        if self._parameters is not None:
            self.forget()

    def _plan(self, name: str) -> Plan:
        plan = self._plans.get(name)
        if plan is None:
            plan = self._plans[name] = Plan()
            if self.monitor._is_name_excluded(name):
                return plan
            fields: list[tuple[int, str, bool]] = []
            for made in self.monitor._metrics["activation"].values():
                if not made.regex.match(name):
                    continue
                key = f"activation/{name}/{made.name}"
                if made.function is not None:
                    self._take_aggregation(key, made)
                    plan.functions.append((key, made.function, made.name))
                else:
                    mine = metric.fields(made, key, self._kinds)
                    for _, part, _ in mine:
                        self._take_aggregation(part, made)
                    fields += mine
            for made in self.monitor._metrics["activation_difference"].values():
                if made.regex.match(name) and made.function is not None:
                    key = f"activation_difference/{name}/{made.name}"
                    self._take_aggregation(key, made)
                    plan.differences.append((key, made.function, made.name))
            plan.row = self._row(name, fields)
        return plan

    def _row(self, name: str, fields: list[tuple[int, str, bool]]) -> int:
        """Make a row of these in C; -1 of none."""
        if not fields:
            return -1
        row = self.core.row(tuple(fields))
        self._names[row] = name
        if any(kind >= self._kinds["hist/q05"] for kind, _, _ in fields):
            self._hist_rows.add(row)
        return row

    def _take_aggregation(self, key: str, made: metric.Metric) -> None:
        if made.aggregation is not None:
            self.monitor.storage.aggregation_fns[key] = made.aggregation

    def _resolve(self, name: str) -> int:
        plan = self._plan(name)
        return plan.row * 2 + plan.is_told

    # ---- activations

    def measure(self, name: str, tensor: torch.Tensor) -> None:
        """Measure a tensor under the name of a module."""
        plan = self._plan(name)
        if plan.row >= 0:
            self.core.read(plan.row, tensor)
        if plan.is_told:
            self._on_output(name, tensor)

    def wants(self, name: str) -> bool:
        """Say if any metric is for this name."""
        plan = self._plan(name)
        return plan.row >= 0 or plan.is_told

    def _on_output(self, name: str, tensor: torch.Tensor) -> None:
        """Call users' functions with a copy of a tensor."""
        plan = self._plans[name]
        is_enabled = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # as no_grad does it, at a tenth of the price
        try:
            copy = tensor.clone()
            for key, function, metric_name in plan.functions:
                try:
                    result = function(copy)
                    if type(result) is not torch.Tensor:
                        result = _checked(result)
                except Exception as error:
                    raise _failed(
                        metric_name, "activations of module", name, copy, error
                    ) from error
                self.results.keys.append(key)
                self.results.values.append(result)
            if plan.differences and self.monitor.has_reference_module():
                self._differences(name, plan, copy)
        finally:
            torch._C._set_grad_enabled(is_enabled)

    def _differences(self, name: str, plan: Plan, copy: torch.Tensor) -> None:
        other = self.monitor._reference.next(name)
        if other is None:
            self.monitor._warn(f"the reference has stored nothing for this call of {name}")
            return
        if self.monitor.cpu_offload:
            copy = copy.cpu()
        for key, function, metric_name in plan.differences:
            try:
                result = _checked(function(copy, other))
            except Exception as error:
                raise _failed(
                    metric_name, "activation differences of module", name, copy, error
                ) from error
            self.results.keys.append(key)
            self.results.values.append(result)

    # ---- parameters and gradients

    def _prepare(self) -> None:
        """Find the parameters, and what is wanted of each."""
        if self._parameters is not None:
            return
        monitor = self.monitor
        assert monitor.module is not None
        formatted = names.formatter(monitor.module, monitor.format_module_name_fn)
        self._parameters = [
            (raw, formatted(raw), p) for raw, p in monitor.module.named_parameters()
        ]
        self._of_parameters = {
            kind: [] for kind in ("parameter", "parameter_difference", *GRADIENTS)
        }
        rows = []
        for i, (raw, name, parameter) in enumerate(self._parameters):
            mine = [
                self._prepare_one(kind, i, raw, f"{prefix}/{name}")
                for kind, prefix in [
                    ("parameter", "parameter"),
                    *(("gradient", g) for g in GRADIENTS),
                ]
            ]
            self._prepare_one("parameter_difference", i, raw, f"parameter_difference/{name}")
            rows.append((parameter, mine[0], mine[1], mine[2]))
        self.core.set_parameters(rows)

    def _prepare_one(self, kind: str, index: int, raw: str, prefix: str) -> int:
        fields: list[tuple[int, str, bool]] = []
        for made in self.monitor._metrics[kind].values():
            if not made.regex.match(raw):
                continue
            key = f"{prefix}/{made.name}"
            if made.function is not None:
                functions = self._of_parameters[prefix.partition("/")[0]]
                functions.append((index, key, made.function, made.name))
            else:
                fields += metric.fields(made, key, self._kinds)
        return self._row(prefix, fields)

    def parameters(self) -> None:
        """Measure all parameters, and how they differ from the reference's."""
        self._prepare()
        self.core.read_parameters(0)
        assert self._parameters is not None
        with torch.no_grad():
            for index, key, function, metric_name in self._of_parameters["parameter"]:
                raw, _, parameter = self._parameters[index]
                try:
                    result = _of_its_own(function(parameter), parameter)
                except Exception as error:
                    raise _failed(metric_name, "parameter", raw, parameter, error) from error
                self.results.keys.append(key)
                self.results.values.append(result)
            self._parameter_differences()

    def _parameter_differences(self) -> None:
        reference = self.monitor.reference_module
        if reference is None or not self.monitor._metrics["parameter_difference"]:
            return
        formatted = names.formatter(reference, self.monitor.format_module_name_fn)
        others = {formatted(raw): other for raw, other in reference.named_parameters()}
        assert self._parameters is not None
        for name in {name for _, name, _ in self._parameters} - set(others):
            self.monitor._warn(f"parameter {name} is not in the reference module")
        for index, key, function, metric_name in self._of_parameters["parameter_difference"]:
            raw, name, parameter = self._parameters[index]
            if name not in others:
                continue
            try:
                result = _of_its_own(function(parameter, others[name]), parameter)
            except Exception as error:
                raise _failed(metric_name, "parameter difference", raw, parameter, error) from error
            self.results.keys.append(key)
            self.results.values.append(result)

    def gradients(self, before_clip: bool) -> None:
        """Measure all gradients."""
        self._prepare()
        assert self._parameters is not None
        for index in self.core.read_parameters(2 if before_clip else 1):
            self.monitor._warn(f"parameter {self._parameters[index][0]} has no gradient")
        with torch.no_grad():
            for index, key, function, metric_name in self._of_parameters[GRADIENTS[before_clip]]:
                raw, _, parameter = self._parameters[index]
                gradient = parameter.grad
                if gradient is None:
                    continue
                gradient = gradient.detach()
                try:
                    result = _of_its_own(function(gradient), gradient)
                except Exception as error:
                    raise _failed(
                        metric_name, "gradient of parameter", raw, gradient, error
                    ) from error
                self.results.keys.append(key)
                self.results.values.append(result)

    # ---- what C cannot read

    def _on_unread(self, row: int, tensor: torch.Tensor, why: str) -> None:
        if why == "device":
            if row in self._hist_rows:  # torch has no such histogram: it is made here
                self.core.add_stats(row, device.stats(tensor), tensor.detach().cpu())
            else:
                self.results.batch.add(tensor, row)
            return
        if why in DENSE:
            with contextlib.suppress(Exception):  # of a kind that this torch cannot
                plain = tensor.detach()
                dense = plain.dequantize() if why == "quantized" else plain.to_dense()
                self.core.read(row, dense)
                return
        name = self._names.get(row, "a tensor")
        if (name, why) not in self._unread:
            self._unread.add((name, why))
            self.monitor._warn(f"{name} cannot be measured: its tensor is {why}")


def _checked(result: Any) -> Any:
    """Give a tensor as it is, anything else as a number."""
    if isinstance(result, torch.Tensor):
        return result.detach() if result.requires_grad else result
    try:
        return float(result)
    except (TypeError, ValueError):
        raise TypeError(f"a metric must return a number or a tensor, not {result!r}") from None


def _of_its_own(result: Any, tensor: torch.Tensor) -> Any:
    """Copy a result that may lie in the program's own memory, which will change."""
    if type(result) is not torch.Tensor:
        result = _checked(result)
    if isinstance(result, torch.Tensor) and (
        result._is_view()
        or sys.getrefcount(result) > 2  # somebody else has it
        or result.data_ptr() == tensor.data_ptr()
    ):
        return result.clone()
    return result


def _failed(
    metric_name: str, what: str, name: str, tensor: torch.Tensor, error: Exception
) -> RuntimeError:
    return RuntimeError(
        f"metric {metric_name!r} failed for the {what} {name}, "
        f"of shape {tuple(tensor.shape)}: {error}"
    )
