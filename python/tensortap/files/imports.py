"""Import a module that may be missing; call a function when one has been imported.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from importlib import import_module
from types import ModuleType
from typing import Any


def needed(name: str, message: str) -> Any:
    """Import a module; raise ImportError with this message if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(message, name=name) from None


class ImportWaiter:
    """A finder for `sys.meta_path` that finds modules as the others do, and wraps their loaders.

    Not an importlib.abc.MetaPathFinder: importing that took a fifth of the command's start-up time.
    """

    def __init__(self, names: Container[str], then: Callable[[ModuleType], None]) -> None:
        """Call *then* with each module that has one of these names, once it is complete."""
        self.names, self.then = names, then

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return what the other finders find, if the module is one of ours."""
        if name not in self.names:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]  # another waiter may be before us
        for finder in behind:
            if not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self.then)  # type: ignore[assignment]
                return spec
        return None


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Call a function when a module is imported for the first time."""

    def end(_: ModuleType) -> None:
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not waiter]
        then()

    waiter: Any = ImportWaiter((name,), end)
    sys.meta_path.insert(0, waiter)


class _Loader:
    """The module's own loader, and a call after it."""

    def __init__(self, inner: Any, then: Callable[[ModuleType], None]) -> None:
        self._inner, self._then = inner, then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        self._then(module)
