"""What TensorSaver and CallTracer have in common: a folder, and modules with names.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ReferenceType, ref

if TYPE_CHECKING:
    import torch

ROOT = "root"  # the path of the model itself
UNKNOWN = "unknown"


class BaseDebugger:
    """Looks at some modules of a model, and writes into a folder."""

    output_dir: Path
    enabled: bool
    module_paths: dict[int, str]  # id of the module -> its path
    _not_copied: ClassVar[tuple[str, ...]] = ("module_paths", "_modules")

    def __init__(self, output_dir: str | os.PathLike[str], enabled: bool = True) -> None:
        """Make the folder."""
        self._begin()
        self.output_dir = Path(output_dir)
        self.output_dir.mkdir(parents=True, exist_ok=True)
        self.enabled = enabled

    def _begin(self) -> None:
        """Make what a copy does not share: modules are known by their ids."""
        self.module_paths = {}
        self._modules: dict[int, ReferenceType[Any]] = {}  # ids are used again

    def __getstate__(self) -> dict[str, Any]:
        """Give the settings and counts: a model that holds a debugger can be copied and pickled."""
        kept = {key: value for key, value in vars(self).items() if key not in self._not_copied}
        return {**kept, "enabled": self.enabled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._begin()
        for name, value in state.items():
            setattr(self, name, value)

    def get_module_path(self, module: torch.nn.Module) -> str:
        """Give the path under which a module was registered, or "unknown"."""
        key = id(module)
        weak = self._modules.get(key)
        if weak is not None and weak() is not module:
            return UNKNOWN
        return self.module_paths.get(key, UNKNOWN)

    def _register(self, path: str, module: torch.nn.Module) -> None:
        self.module_paths[id(module)] = path
        self._modules[id(module)] = ref(module)


def selected(
    model: torch.nn.Module,
    target_classes: type | Sequence[type] | None,
    target_names: Sequence[str] | None,
    exclude_names: Sequence[str] | None,
) -> Iterator[tuple[str, torch.nn.Module]]:
    """Give path and module of those that are asked for.

    Of one of the classes, with a path that contains one of the names (if any are
    given: an empty list selects nothing) and none of the excluded ones.
    """
    import torch

    if target_classes is None:
        classes: Any = (torch.nn.Module,)
    else:
        classes = (target_classes,) if isinstance(target_classes, type) else tuple(target_classes)
    wanted, unwanted = _names(target_names), _names(exclude_names) or ()
    for name, module in model.named_modules():
        path = str(name) or ROOT
        if (
            isinstance(module, classes)
            and (wanted is None or any(part in path for part in wanted))
            and not any(part in path for part in unwanted)
        ):
            yield path, module


def _names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    return (names,) if isinstance(names, str) else tuple(names)
