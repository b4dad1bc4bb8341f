"""TENSORTAP_TRACK=module:function[:var,…] decorates without touching the source.

Loaded only where the variable is set.  Modules are decorated when their import
has ended; several entries are separated by semicolons.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

Wanted = dict[str, list[tuple[str, tuple[str, ...]]]]


def parse(text: str) -> Wanted:
    """Read "module:function:var,var;…" as {module: [(function, names)]}."""
    wanted: Wanted = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        module, _, rest = entry.partition(":")
        function, _, names = rest.partition(":")
        if not module or not function:
            warnings.warn(
                f"TENSORTAP_TRACK: {entry!r} is not module:function[:var,…]", RuntimeWarning, stacklevel=2
            )
            continue
        variables = tuple(name.strip() for name in names.split(",") if name.strip())
        wanted.setdefault(module, []).append((function, variables))
    return wanted


def decorate(module: ModuleType, targets: list[tuple[str, tuple[str, ...]]]) -> None:
    """Put the decorated functions in the place of the plain ones."""
    from tensortap.track import auto_diff, var_tracker

    for path, names in targets:
        owner: Any = module
        *outer, last = path.split(".")
        try:
            for part in outer:
                owner = getattr(owner, part)
            func = vars(owner)[last]
        except (AttributeError, KeyError, TypeError):
            warnings.warn(f"TENSORTAP_TRACK: {module.__name__} has no {path}", RuntimeWarning, stacklevel=2)
            continue
        setattr(owner, last, var_tracker(*names)(func) if names else auto_diff(func))


class _Loader(importlib.abc.Loader):
    """The module's own loader, with the decorating after it."""

    def __init__(self, inner: Any, targets: list[tuple[str, tuple[str, ...]]]) -> None:
        self._inner = inner
        self._targets = targets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        decorate(module, self._targets)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the wanted modules as everybody else does, and wraps their loaders."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        targets = self._wanted.get(name)
        if targets is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, targets)
                return spec
        return None


def install() -> None:
    """Decorate what TENSORTAP_TRACK names, now or when it is imported; twice is harmless."""
    wanted = parse(os.environ.get("TENSORTAP_TRACK", ""))
    if not wanted or any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder(wanted))
    for name, targets in wanted.items():
        module = sys.modules.get(name)
        if module is not None:
            decorate(module, targets)
