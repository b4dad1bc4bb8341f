"""A base class of modules that log their own metrics.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from tensortap.monitor.module_monitor import ModuleMonitor


class _Held:
    """A monitor as an attribute that does not keep it alive, and that copies leave behind."""

    def __init__(self, monitor: ModuleMonitor) -> None:
        self.monitor = ref(monitor)

    def __deepcopy__(self, memo: object) -> None:
        return None

    def __copy__(self) -> None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


class MonitorMixin:
    """A second base class for modules that ask, while they run, whether they are monitored.

    It needs no `__init__`: `nn.Module.__init__` does not call that of other base classes.

    Example:
        >>> import torch
        >>> from tensortap.monitor import MonitorMixin
        >>> class Net(torch.nn.Linear, MonitorMixin):
        ...     pass
        >>> Net(2, 1).is_monitoring
        False
    """

    _held_monitor: _Held | None = None
    is_reference_module: bool = False

    def set_module_monitor(
        self, monitor: ModuleMonitor | None = None, is_reference_module: bool = False
    ) -> None:
        """Set the monitor to log to; called by the monitor itself."""
        self._held_monitor = None if monitor is None else _Held(monitor)
        self.is_reference_module = is_reference_module

    def get_module_monitor(self) -> ModuleMonitor | None:
        """Return the monitor, or None."""
        return None if self._held_monitor is None else self._held_monitor.monitor()

    @property
    def module_monitor(self) -> ModuleMonitor | None:
        """The monitor, or None."""
        return self.get_module_monitor()

    @property
    def is_monitoring(self) -> bool:
        """Whether this forward pass is monitored.

        A module of the reference also counts inside `no_monitor()`: what it stores there is
        what the monitored one is compared with.
        """
        monitor = self.get_module_monitor()
        if monitor is None:
            return False
        return (
            monitor._is_storing_reference() if self.is_reference_module else monitor.is_monitoring()
        )
