"""The reference module: what the monitored one is compared with.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

import torch

from tensortap import _core
from tensortap.monitor import names
from tensortap.monitor.mixin import MonitorMixin
from tensortap.monitor.weak import weakly
from tensortap.private.trees import map_tensors

if TYPE_CHECKING:
    from tensortap.monitor.module_monitor import ModuleMonitor


class Copies:
    """Copies that somebody still holds, known by the tensor they were made of."""

    def __init__(self, *, to_cpu: bool) -> None:
        """Start without copies; *to_cpu*: keep them on the CPU."""
        self.to_cpu = to_cpu
        self._known: dict[Any, Any] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a detached copy of a tensor as it is now."""
        return _core.copy_tensor(tensor, make=self._make, cache=self._known)

    def _make(self, tensor: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            copy = tensor.detach().clone()
            return copy.cpu() if self.to_cpu else copy

    def of_all(self, value: Any) -> Any:
        """Copy every tensor in tuples, lists and dicts; the rest stays what it is."""
        return map_tensors(self.of, value)

    def clear(self) -> None:
        """Forget all copies."""
        self._known.clear()


class Reference:
    """A reference module, and what its modules returned."""

    def __init__(self, monitor: ModuleMonitor) -> None:
        self._monitor = ref(monitor)  # it owns this
        self.module: torch.nn.Module | None = None
        self.names: dict[torch.nn.Module, str] = {}
        self.calls: dict[str, list[torch.Tensor]] = {}  # by name: what each call returned
        self.seen: dict[str, int] = {}  # how often the monitored module has been compared
        self.is_checking = False  # extra passes of RCC: nothing is stored
        self.checks: WeakSet[Any] = WeakSet()  # of RCC, which hold inputs
        self.copies = Copies(to_cpu=monitor.cpu_offload)
        self.consumer = _core.ModuleConsumer(tensor=weakly(monitor, self._on_output))

    def set(self, module: torch.nn.Module | None) -> None:
        """Watch another module, or none; an error leaves everything as it was."""
        monitor = self._monitor()
        assert monitor is not None
        found = []
        if module is not None:
            found = list(names.modules(module, monitor.format_module_name_fn))
            wanted, there = set(monitor.module_names.values()), {name for name, _, _ in found}
            if wanted != there:
                names_of_one = sorted(wanted ^ there)
                more = " ..." if len(names_of_one) > 5 else ""
                raise ValueError(
                    "the reference must have modules of the same names as the monitored module; "
                    f"only one of them has {', '.join(names_of_one[:5])}{more}"
                )
        self.remove()
        self.module, self.names = module, {part: name for name, part, _ in found}
        for name, part, is_called in found:
            if monitor._is_name_excluded(name):
                continue
            if is_called:
                self.consumer.add(part, name)
            if isinstance(part, MonitorMixin):
                part.set_module_monitor(monitor, True)

    def remove(self) -> None:
        """Leave the module as it was before."""
        if self.module is None:
            return
        for part in self.names:
            if isinstance(part, MonitorMixin):
                part.set_module_monitor(None, False)
        self.consumer.remove()
        self.module, self.names = None, {}
        self.forget()

    def forget(self) -> None:
        """Drop everything stored."""
        self.calls = {}
        self.seen = {}
        self.copies.clear()
        for check in self.checks:
            check._forget()

    def _on_output(self, name: str, tensor: torch.Tensor) -> None:
        monitor = self._monitor()
        assert monitor is not None
        if not monitor._is_name_excluded(name):
            self.store(name, tensor)

    def store(self, name: str, tensor: torch.Tensor) -> None:
        """Keep what a module of the reference returned, as it is now."""
        self.calls.setdefault(name, []).append(self.copies.of(tensor))

    def next(self, name: str) -> torch.Tensor | None:
        """Return what the reference returned at the corresponding call."""
        call = self.seen.get(name, 0)
        self.seen[name] = call + 1
        calls = self.calls.get(name, [])
        return calls[call] if call < len(calls) else None
