"""The refined coordinate check: whether weights learn, or only their inputs drift.

For each module, W_t x_t - W_0 x_0 = (W_t - W_0) x_t + W_0 (x_t - x_0), where t is the monitored
module and 0 the reference (arXiv 2505.22491).  W_0 x_t is what neither of them computes: the
reference's modules are called once more, with the inputs of the monitored ones.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import layer_norm

from tensortap import _core
from tensortap.models import forward
from tensortap.models.modules import RUN_EAGERLY, is_in_graph, unwrapped
from tensortap.monitor import names
from tensortap.monitor.reference_module import Copies
from tensortap.monitor.weak import weakly
from tensortap.private.trees import list_tensors, map_tensors

if TYPE_CHECKING:
    from tensortap.monitor.module_monitor import ModuleMonitor

PIECE = 1 << 18  # elements: larger differences are computed in pieces of the batch


def l2_norm(tensor: torch.Tensor) -> torch.Tensor:
    """Compute the L2 norm over the last dimension.

    Args:
        tensor: The tensor.

    Returns:
        The norms.

    Example:
        >>> import torch
        >>> from tensortap.monitor import l2_norm
        >>> l2_norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    norm: torch.Tensor = torch.linalg.vector_norm(tensor, ord=2, dim=-1)
    return norm


@dataclass
class _Call:
    """One call of a module: copies of its arguments and of its output."""

    number: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    autocast: forward.Autocast
    is_writing: bool = False  # into its arguments
    output: torch.Tensor | None = None


def _input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """Return the first argument, if it has a norm."""
    first = args[0] if args else next(iter(kwargs.values()), None)
    has_norm = isinstance(first, torch.Tensor) and (first.is_floating_point() or first.is_complex())
    return first if has_norm else None


def _without(bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that subtracts the bias."""
    return lambda x: x if bias is None else x - bias.to(x.device)


class RefinedCoordinateCheck:
    """Log how much of each module's change comes from its weights, and how much from its input.

    Args:
        monitor: A monitor with a module and a reference module.

    Raises:
        ValueError: The monitor has no module or no reference module.

    Example:
        >>> import copy, torch
        >>> from tensortap.monitor import ModuleMonitor, RefinedCoordinateCheck
        >>> model = torch.nn.Linear(2, 1)
        >>> monitor = ModuleMonitor()
        >>> monitor.set_module(model)
        >>> monitor.set_reference_module(copy.deepcopy(model))
        >>> check = RefinedCoordinateCheck(monitor)
    """

    def __init__(self, monitor: ModuleMonitor) -> None:
        """Start to store the arguments of the modules of both models."""
        if monitor.module is None:
            raise ValueError(
                "Set the module to monitor before the refined coordinate check is made"
            )
        if monitor.reference_module is None:
            raise ValueError("Set the reference module before the refined coordinate check is made")
        self.monitor = monitor
        self.module = monitor.module
        self.reference_module = monitor.reference_module
        self._copies = Copies(to_cpu=monitor.cpu_offload)
        self._warned: set[str] = set()  # of modules that are compiled
        self._calls: dict[str, list[_Call]] = {}
        self._inputs: dict[str, list[torch.Tensor | None]] = {}  # of the reference
        self._consumer = _core.ModuleConsumer(weakly(self, self._before), weakly(self, self._after))
        self._reference_consumer = _core.ModuleConsumer(weakly(self, self._before_reference))
        self._modules = self._put(self._consumer, self.module)
        self._reference_modules = self._put(self._reference_consumer, self.reference_module)
        monitor._consumers.append(self._consumer)
        monitor._reference_consumers.append(self._reference_consumer)
        monitor._reference.checks.add(self)
        monitor._follow()

    def _remove(self) -> None:
        """Leave the modules of both models as they were."""
        for consumer, followers in (
            (self._consumer, self.monitor._consumers),
            (self._reference_consumer, self.monitor._reference_consumers),
        ):
            consumer.remove()
            if consumer in followers:
                followers.remove(consumer)

    def __del__(self) -> None:
        if hasattr(self, "_reference_consumer"):
            self._remove()

    def _put(self, consumer: Any, root: torch.nn.Module) -> dict[str, torch.nn.Module]:
        """Watch every module but the root; return those modules by name."""
        found, top = {}, unwrapped(root)
        for name, module, is_called in names.modules(root, self.monitor.format_module_name_fn):
            if is_called and module is not top and not self.monitor._is_name_excluded(name):
                consumer.add(module, name)
                found[name] = module
        return found

    # ---- while the models run

    def _before(self, event: Any) -> None:
        args, kwargs = self._copies.of_all((event.args, event.kwargs or {}))
        call = _Call(event.call, args, kwargs, forward.autocast_now(event.args))
        self._calls.setdefault(event.name, []).append(call)

    def _after(self, event: Any) -> None:
        calls = self._calls.get(event.name, [])
        call = next((call for call in reversed(calls) if call.number == event.call), None)
        if call is None:
            return
        if isinstance(event.output, torch.Tensor):
            call.output = self._copies.of(event.output)
            before = list_tensors((call.args, call.kwargs))
            after = list_tensors(self._copies.of_all((event.args, event.kwargs or {})))
            # A tensor that has not changed since has the same copy.
            call.is_writing = list(map(id, before)) != list(map(id, after))
        else:
            calls.remove(call)

    def _before_reference(self, event: Any) -> None:
        first = _input(event.args, event.kwargs or {})  # only x_0 is needed
        copied = None if first is None else self.monitor._reference.copies.of(first)
        self._inputs.setdefault(event.name, []).append(copied)

    def _forget(self) -> None:
        """Drop what was stored."""
        self._calls = {}
        self._inputs = {}
        self._copies.clear()

    # ---- the check

    def refined_coordinate_check(self) -> None:
        """Log the check of every module that ran, after a forward pass of both models."""
        if not self.monitor.is_monitoring():
            return
        for stored, modules, which in (
            (self._calls, self._modules, "monitored"),
            (self._inputs, self._reference_modules, "reference"),
        ):
            compiled = [
                name for name, one in modules.items() if name not in stored and is_in_graph(one)
            ]
            if compiled:
                self._warn_of_compiled(compiled, which)
            elif not stored:
                raise ValueError(
                    f"there was no forward pass of the {which} module since the last check"
                )
        reference = self.monitor._reference
        parameter = next(self.reference_module.parameters(), None)
        device = None if parameter is None else parameter.device
        reference.is_checking = True
        self.monitor._follow()
        calls, inputs = self._calls, self._inputs
        self._forget()
        try:
            with forward.unnoticed():
                for name in list(calls):
                    x0s = inputs.pop(name, [])
                    outputs = reference.calls.get(name, [])[-len(x0s) :] if x0s else []
                    mine = [call for call in calls.pop(name) if call.output is not None]
                    for call in mine[len(outputs) :]:
                        self.monitor._warn(
                            f"the reference has nothing stored for call {call.number} of {name}"
                        )
                    for call, x0, w0_x0 in zip(mine, x0s, outputs, strict=False):
                        self._check(name, call, x0, w0_x0, device)
        finally:
            reference.is_checking = False
            self.monitor._follow()

    def _warn_of_compiled(self, unseen: list[str], which: str) -> None:
        """Warn once of modules that run inside compiled graphs, where arguments are not seen."""
        if which in self._warned:
            return
        self._warned.add(which)
        shown = ", ".join(unseen[:20]) + (", ..." if len(unseen) > 20 else "")
        self.monitor._warn(
            "the coordinate check needs the inputs of modules, but torch.compile runs "
            f"{len(unseen)} of the {which} module inside a graph ({RUN_EAGERLY}): {shown}"
        )

    def _check(
        self,
        name: str,
        call: _Call,
        x0: torch.Tensor | None,
        w0_x0: torch.Tensor,
        device: torch.device | None,
    ) -> None:
        """Compute W_0 x_t, and log the norms of all differences."""

        def here(tensor: torch.Tensor) -> torch.Tensor:
            return tensor if device is None else tensor.to(device)

        def given(tensor: torch.Tensor) -> torch.Tensor:
            return here(tensor).clone() if call.is_writing else here(tensor)

        module, other = self._modules[name], self._reference_modules.get(name)
        if other is None or call.output is None:
            return
        args, kwargs = map_tensors(given, (call.args, call.kwargs))
        w0_xt = forward.run(other, args, kwargs, call.autocast)
        del args, kwargs
        if not isinstance(w0_xt, torch.Tensor):
            return
        wt_xt, w0_x0 = here(call.output), here(w0_x0)
        w, x = f"RCC (W_t-W_0)x_t/{name}", f"RCC W_0(x_t-x_0)/{name}"
        self._log(f"{w}/l2norm", torch.sub, wt_xt, w0_xt)
        if isinstance(module, torch.nn.Embedding):
            return
        self._log(f"{x}/l2norm", torch.sub, w0_xt, w0_x0)
        xt = _input(call.args, call.kwargs)
        inputs = [here(tensor) for tensor in (xt, x0) if tensor is not None and xt is not None]
        if inputs:
            self._log(f"RCC x_t/{name}/l2norm", torch.Tensor.detach, inputs[0])
        if len(inputs) == 2:
            self._log(f"RCC (x_t-x_0)/{name}/l2norm", torch.sub, *inputs)
        if isinstance(module, (torch.nn.Linear, torch.nn.LayerNorm)):  # without the bias
            t, zero = _without(module.bias), _without(getattr(other, "bias", None))
            keeps = 0 if module.bias is None else module.bias.dim()
            self._log(f"{w}.weight/l2norm", lambda a, b: t(a) - zero(b), wt_xt, w0_xt, keeps=keeps)
            self._log(
                f"{x}.weight/l2norm", lambda a, b: zero(a) - zero(b), w0_xt, w0_x0, keeps=keeps
            )
            self._log(f"{w}.weight/W_t x_t/l2norm", t, wt_xt, keeps=keeps)
            self._log(f"{x}.weight/W_0 x_0/l2norm", zero, w0_x0, keeps=keeps)
        if isinstance(module, torch.nn.LayerNorm) and inputs:
            shape = list(module.normalized_shape)
            normal = partial(layer_norm, normalized_shape=shape, eps=module.eps)
            self._log(f"{w}.weight/x_t/l2norm", normal, inputs[0], keeps=len(shape))
            if len(inputs) == 2:
                between = f"{x}.weight/x_t-x_0/l2norm"
                self._log(between, lambda a, b: normal(a) - normal(b), *inputs, keeps=len(shape))

    def _log(
        self,
        key: str,
        function: Callable[..., torch.Tensor],
        *tensors: torch.Tensor,
        keeps: int = 1,
    ) -> None:
        """Log the norms of a function of tensors, computed in pieces.

        *keeps*: number of last dimensions that belong together.
        """
        first = tensors[0]
        is_whole = first.numel() <= PIECE or first.dim() <= max(keeps, 1) or len(first) == 1
        if is_whole or any(tensor.shape != first.shape for tensor in tensors):
            self.monitor._log_own(key, l2_norm(function(*tensors)))
            return
        rows = max(1, PIECE * len(first) // first.numel())
        pieces = zip(*(torch.split(tensor, rows) for tensor in tensors), strict=True)
        self.monitor._log_own(key, torch.cat([l2_norm(function(*piece)) for piece in pieces]))
