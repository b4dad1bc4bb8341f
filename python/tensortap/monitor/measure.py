"""Which metrics each name has, and calling the functions among them.

Metrics known by name are computed in C; of those, only tensors that C cannot read come here.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch

from tensortap import _core
from tensortap.compiled.module_call import what_hides_modules
from tensortap.devices import statistics
from tensortap.models.modules import RUN_EAGERLY, is_in_graph
from tensortap.monitor import metric, names
from tensortap.monitor.inherited import HooksManager
from tensortap.monitor.metric import Call, Plan, Wanted
from tensortap.monitor.recorded import Recorded
from tensortap.monitor.results import Results
from tensortap.monitor.weak import weakly
from tensortap.private.shards import is_sharded, local_part
from tensortap.private.tensors import is_view, set_grad_mode

if TYPE_CHECKING:
    from tensortap.monitor.module_monitor import ModuleMonitor

DIFFERENCE = "parameter_difference"
#: Prefix of the keys -> kind of metric; the first three are rows in C.
KINDS_OF_PARAMETERS = {
    "parameter": "parameter",
    "gradient": "gradient",
    "gradient_before_clip": "gradient",
    DIFFERENCE: DIFFERENCE,
}
NO_ROW = -2  # what _resolve returns where there is nothing to measure
OUR_REFERENCES = 3  # of _call, of _of_its_own, and of getrefcount
DENSE = ("sparse", "mkldnn", "quantized")  # what torch can lay out for us


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
        self.recorded = Recorded()
        self.hooks = HooksManager()
        self._kinds = {name: i for i, name in enumerate(self.core.fields)}
        self._plans: dict[str, Plan] = {}
        self._hist_rows: set[int] = set()
        self._names: dict[int, str] = {}  # of each row: where its tensors come from, ...
        self._sites: dict[int, tuple[str, list[str]]] = {}  # ... and their name and keys in a run
        self._parameters: list[tuple[str, str, torch.nn.Parameter]] | None = None  # raw, formatted
        #: By prefix of the keys: the parameters that C alone does not measure.
        self._of_parameters: dict[str, list[tuple[str, str, torch.nn.Parameter, Wanted]]] = {}
        self._unread: set[tuple[str, str]] = set()  # of which a warning was given
        self._has_shards = False  # a warning was given
        self._is_unseen_warned = False
        # A subclass that measures in its own way gets every output, by the method it overrides.
        from tensortap.monitor.module_monitor import ModuleMonitor

        self._own = type(monitor).monitor_activations is not ModuleMonitor.monitor_activations

    @property
    def monitor(self) -> ModuleMonitor:
        """The monitor that owns this."""
        monitor = self._monitor()
        assert monitor is not None
        return monitor

    # ---- modules

    def watch(self, module: torch.nn.Module, name: str) -> None:
        """Measure what this module returns."""
        if self._own:
            own = weakly(self.monitor, self.monitor.monitor_activations)
            self.hooks.register_forward_hook(module, lambda _m, _i, output: own(name, output))
            return
        self.core.add(module, name)
        self.hooks.hooks[module] = SimpleNamespace(remove=partial(self.core.remove, module))

    def warn_of_unseen(self) -> None:
        """Warn once of modules whose calls cannot be seen."""
        metrics = self.monitor._metrics
        wanted = metrics["activation"] or metrics["activation_difference"]
        if self._is_unseen_warned or self.monitor.module is None or not wanted:
            return
        self._is_unseen_warned = True
        unseen = self.core.unseen()
        if unseen and (
            len(unseen) == len(self.hooks) or any(map(is_in_graph, self.monitor.module.modules()))
        ):
            shown = ", ".join(unseen[:20]) + (", ..." if len(unseen) > 20 else "")
            why = what_hides_modules() or "torch.compile runs a model without calling its modules"
            self.monitor._warn(
                f"{len(unseen)} modules were not seen ({why}; {RUN_EAGERLY}): {shown}"
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
        self._names, self._sites = {}, {}
        self.core.forget()

    def forget_parameters(self) -> None:
        """Make the list of parameters anew."""
        if self._parameters is not None:
            self.forget()

    def _plan(self, name: str) -> Plan:
        plan = self._plans.get(name)
        if plan is None:
            plan = Plan(Wanted(), Wanted())
            if not self.monitor._is_name_excluded(name):
                kinds = ("activation", "activation_difference")
                plan = Plan(*(self._want(kind, name, kind, name) for kind in kinds))
            self._plans[name] = plan
        return plan

    def _want(self, kind: str, raw: str, prefix: str, name: str) -> Wanted:
        """Find the metrics of a kind whose regex matches *raw*; *prefix* and *name* are in keys."""
        wanted = Wanted()
        fields: list[tuple[int, str, bool]] = []
        for made in self.monitor._metrics[kind].values():
            if not made.regex.match(raw):
                continue
            key = f"{prefix}/{name}/{made.name}"
            mine = metric.fields(made, key, self._kinds) if made.function is None else []
            if made.function is not None:
                wanted.calls.append(Call(key, made.function, made.name))
            if made.aggregation is not None:
                for one in [part for _, part, _ in mine] or [key]:
                    self.monitor.storage.aggregation_fns[one] = made.aggregation
            fields += mine
        if fields:
            wanted.row = self.core.row(tuple(fields))
            self._names[wanted.row] = name if prefix == "activation" else f"{prefix}/{name}"
            self._sites[wanted.row] = f"{prefix}/{name}", [key for _, key, _ in fields]
            if any(kind >= self._kinds["hist/q05"] for kind, _, _ in fields):
                self._hist_rows.add(wanted.row)
        return wanted

    def _resolve(self, name: str) -> int:
        plan = self._plan(name)
        return plan.own.row * 2 + bool(plan.own.calls or plan.difference)

    # ---- activations

    def measure(self, name: str, tensor: torch.Tensor) -> None:
        """Measure a tensor under the name of a module."""
        plan = self._plan(name)
        if plan.own.row >= 0:
            self.core.read(plan.own.row, tensor)
        if plan.own.calls or plan.difference:
            self._on_output(name, tensor)

    def wants(self, name: str) -> bool:
        """Return whether any metric is for this name."""
        return any(self._plan(name))

    def _on_output(self, name: str, tensor: torch.Tensor) -> None:
        """Call users' functions with a copy of a tensor."""
        plan = self._plans[name]
        is_enabled = torch.is_grad_enabled()
        set_grad_mode(False)
        try:
            copy = tensor.clone()
            for call in plan.own.calls:
                self._call(call, "activations of module", name, copy)
            if plan.difference and self.monitor.has_reference_module():
                self._differences(name, plan.difference, copy)
        finally:
            set_grad_mode(is_enabled)

    def _differences(self, name: str, wanted: Wanted, copy: torch.Tensor) -> None:
        other = self.monitor._reference.next(name)
        if other is None:
            self.monitor._warn(f"the reference has stored nothing for this call of {name}")
            return
        if self.monitor.cpu_offload:
            copy = copy.cpu()
        what = "activation differences of module"
        self._subtract(wanted.row, what, name, copy, other)
        for call in wanted.calls:
            self._call(call, what, name, copy, other)

    def _subtract(
        self, row: int, what: str, name: str, tensor: torch.Tensor, other: torch.Tensor
    ) -> None:
        """Measure the difference of two tensors by the metrics known by name, if there are any."""
        if row < 0:
            return
        try:
            between = tensor.detach() - other.detach()
        except Exception as error:
            shapes = f"{tuple(tensor.shape)} and {tuple(other.shape)}"
            raise RuntimeError(
                f"the {what} {name}, of shapes {shapes}, cannot be computed: {error}"
            ) from error
        self.core.read(row, between)

    def _call(
        self,
        call: Call,
        what: str,
        name: str,
        tensor: torch.Tensor,
        other: torch.Tensor | None = None,
        is_ours: bool = True,
    ) -> None:
        """Call a function of the user; the result becomes a number when the step ends.

        *is_ours*: nobody writes into the tensors, so that a result may share their memory.
        """
        if is_sharded(tensor):
            self._warn_of_shard(name)
        try:
            result = call.function(tensor) if other is None else call.function(tensor, other)
            if type(result) is not torch.Tensor:
                result = _checked(result)
            if not is_ours:
                result = _of_its_own(result, tensor)
        except Exception as error:
            raise RuntimeError(
                f"metric {call.name!r} failed for the {what} {name}, "
                f"of shape {tuple(tensor.shape)}: {error}"
            ) from error
        self.results.keys.append(call.key)
        self.results.values.append(result)

    # ---- parameters and gradients

    def _prepare(self) -> list[tuple[str, str, torch.nn.Parameter]]:
        """Find the parameters, and what is wanted of each."""
        if self._parameters is not None:
            return self._parameters
        monitor = self.monitor
        assert monitor.module is not None
        self._parameters = list(names.parameters(monitor.module, monitor.format_module_name_fn))
        self._of_parameters = {prefix: [] for prefix in KINDS_OF_PARAMETERS}
        rows = []
        for raw, name, parameter in self._parameters:
            mine = []
            for prefix, kind in KINDS_OF_PARAMETERS.items():
                wanted = self._want(kind, raw, prefix, name)
                mine.append(wanted.row)
                if wanted.calls or (wanted and prefix == DIFFERENCE):
                    self._of_parameters[prefix].append((raw, name, parameter, wanted))
            rows.append((parameter, mine[0], mine[1], mine[2]))
        self.core.set_parameters(rows)
        return self._parameters

    def _call_all(
        self,
        prefix: str,
        what: str,
        tensor_of: Callable[[torch.nn.Parameter], torch.Tensor | None],
        others: dict[str, torch.nn.Parameter] | None = None,
    ) -> None:
        """Call users' functions with the tensor of each parameter, if it has one.

        *others*: what it is compared with, by name.
        """
        with torch.no_grad():
            for raw, name, parameter, wanted in self._of_parameters[prefix]:
                tensor = tensor_of(parameter)
                other = None if others is None else others.get(name)
                if tensor is None or (others is not None and other is None):
                    continue
                if other is not None:
                    self._subtract(wanted.row, what, raw, tensor, other)
                for call in wanted.calls:
                    self._call(call, what, raw, tensor, other, False)

    def parameters(self) -> None:
        """Measure all parameters, and how they differ from the reference's."""
        parameters = self._prepare()
        with self.results.batch.together():
            self.core.read_parameters(0)
        self._call_all("parameter", "parameter", lambda parameter: parameter)
        reference = self.monitor.reference_module
        if reference is None or not self.monitor._metrics["parameter_difference"]:
            return
        found = names.parameters(reference, self.monitor.format_module_name_fn)
        others = {name: other for _, name, other in found}
        for name in {name for _, name, _ in parameters} - set(others):
            self.monitor._warn(f"parameter {name} is not in the reference module")
        self._call_all(DIFFERENCE, "parameter difference", lambda parameter: parameter, others)

    def gradients(self, before_clip: bool) -> None:
        """Measure all gradients."""
        parameters = self._prepare()
        with self.results.batch.together():
            missing = self.core.read_parameters(2 if before_clip else 1)
        for index in missing:
            self.monitor._warn(f"parameter {parameters[index][0]} has no gradient")
        self._call_all(
            "gradient_before_clip" if before_clip else "gradient",
            "gradient of parameter",
            lambda parameter: None if parameter.grad is None else parameter.grad.detach(),
        )

    def _warn_of_shard(self, name: str, site: str = "", run: str | None = None) -> None:
        """Warn once that metrics of DTensors are those of a part, and where the whole is."""
        if self._has_shards:
            return
        self._has_shards = True
        where = "inside of `with tt.record(...):` the run has what joins the parts"
        if run is not None:
            where = f"the run has the whole: tt.open({run!r}).series({site!r}, 'l2')"
        self.monitor._warn(
            f"{name} is sharded: its metrics, and those of others like it, are of this rank's "
            f"part; {where}"
        )

    # ---- what C cannot read

    def _on_unread(self, row: int, tensor: torch.Tensor | int, why: str) -> None:
        if isinstance(tensor, int):  # a probe has started its statistics
            statistics.call_with(
                tensor, lambda found: self.core.add_stats(row, found.stats, found.histogram)
            )
            return
        if why == "dtensor":
            site, keys = self._sites.get(row, ("a tensor", []))
            run = self.recorded.part(self.monitor, site, keys, tensor)
            self._warn_of_shard(self._names.get(row, site), site, run)
            self.core.read(row, local_part(tensor))
            return
        if why == "device":
            self.results.batch.add(tensor, row, wants_histogram=row in self._hist_rows)
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
    """Return a tensor as it is, the local part of a DTensor, anything else as a number."""
    result = local_part(result)
    if isinstance(result, torch.Tensor):
        return result.detach() if result.requires_grad else result
    try:
        return float(result)
    except (TypeError, ValueError):
        raise TypeError(f"a metric must return a number or a tensor, not {result!r}") from None


def _of_its_own(result: Any, tensor: torch.Tensor) -> Any:
    """Copy a result that may share the program's memory, which will change."""
    if isinstance(result, torch.Tensor) and (
        is_view(result)
        or sys.getrefcount(result) > OUR_REFERENCES  # somebody else has it
        or result.data_ptr() == tensor.data_ptr()
    ):
        return result.clone()
    return result
