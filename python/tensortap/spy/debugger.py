"""What TensorSaver and CallTracer have in common: a folder, and modules with names.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ReferenceType, ref

from tensortap.models.modules import walk
from tensortap.spy.inherited import ROOT, UNKNOWN

if TYPE_CHECKING:
    import torch


class BaseDebugger:
    """Base of `TensorSaver` and `CallTracer`: knows modules by their paths, and has a folder.

    Args:
        output_dir: Folder to write into; created if it is missing.
        enabled: Whether to do anything. The attribute of this name may be changed later.

    Example:
        >>> from tensortap.spy import BaseDebugger
        >>> BaseDebugger("debug").output_dir
        PosixPath('debug')
    """

    output_dir: Path
    enabled: bool
    module_paths: dict[int, str]  # id of the module -> its path
    _not_copied: ClassVar[tuple[str, ...]] = ("module_paths", "_modules")

    def __init__(self, output_dir: str | os.PathLike[str], enabled: bool = True) -> None:
        """Create the folder."""
        self._begin()
        self.output_dir = Path(output_dir)
        self.output_dir.mkdir(parents=True, exist_ok=True)
        self.enabled = enabled

    def _begin(self) -> None:
        """Create what a copy does not share: modules are known by their ids."""
        self.module_paths = {}
        self._modules: dict[int, ReferenceType[Any]] = {}  # ids are reused

    def __getstate__(self) -> dict[str, Any]:
        """Return settings and counts, so that a model with a debugger can be copied and pickled."""
        kept = {key: value for key, value in vars(self).items() if key not in self._not_copied}
        return {**kept, "enabled": self.enabled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._begin()
        for name, value in state.items():
            setattr(self, name, value)

    def get_module_path(self, module: torch.nn.Module) -> str:
        """Return the path under which a module was registered, or "unknown"."""
        key = id(module)
        weak = self._modules.get(key)
        if weak is not None and weak() is not module:
            return UNKNOWN
        return self.module_paths.get(key, UNKNOWN)

    def register_modules(
        self,
        model: torch.nn.Module,
        target_classes: type | Sequence[type] | None = None,
        target_names: Sequence[str] | None = None,
        exclude_names: Sequence[str] | None = None,
    ) -> None:
        """Register the modules of a model under their paths; the model itself is "root".

        What wraps a module (DDP, FSDP, torch.compile) has its path.

        Args:
            model: The model.
            target_classes: Register only modules of these classes.
            target_names: Register only modules whose path contains one of these texts; an empty
                list selects nothing.
            exclude_names: Do not register modules whose path contains one of these texts.
        """
        from torch.nn import Module

        if target_classes is None:
            classes: Any = (Module,)
        elif isinstance(target_classes, type):
            classes = (target_classes,)
        else:
            classes = tuple(target_classes)
        wanted = [""] if target_names is None else _listed(target_names)
        unwanted = _listed(exclude_names or ())
        for name, module, is_called in walk(model, with_wrappers=True):
            path = name or ROOT
            if (
                isinstance(module, classes)
                and any(text in path for text in wanted)
                and not any(text in path for text in unwanted)
            ):
                self._register(path, module, is_called)

    def _register(self, path: str, module: torch.nn.Module, is_called: bool) -> None:
        self.module_paths[id(module)] = path
        self._modules[id(module)] = ref(module)


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names
