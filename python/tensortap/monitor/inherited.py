"""What is here only because torch-module-monitor has it; its programs run with a changed import.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from tensortap.private.modules import WRAPPERS

if TYPE_CHECKING:
    import torch

ROOT = "[root module]"  # the model itself; elsewhere it is "(root)"
PREFIXES = set(WRAPPERS.values()) - {"module"}  # which a module of the user's may be called


def default_format_module_name_fn(name: str) -> str:
    """Return the name of a module without the parts that wrappers add.

    Args:
        name: The name from `named_modules()`.

    Returns:
        The name; "[root module]" for the model itself.

    Example:
        >>> from tensortap.monitor import default_format_module_name_fn
        >>> default_format_module_name_fn("_orig_mod.fc")
        'fc'
    """
    if name == "" or name in PREFIXES:
        return ROOT
    for wrapper in PREFIXES:
        name = name.replace(f"{wrapper}.", "")
    return name


class HooksManager:
    """Manage the forward hooks of some modules, one for each.

    Example:
        >>> from tensortap.monitor import HooksManager
        >>> HooksManager().remove_all_hooks()
    """

    def __init__(self) -> None:
        self.hooks: dict[torch.nn.Module, Any] = {}  # handles, which have remove()

    def register_forward_hook(self, module: torch.nn.Module, hook_fn: Callable[..., Any]) -> None:
        """Register a hook on a module, and remove the one registered here before."""
        self.remove_hook(module)
        self.hooks[module] = module.register_forward_hook(hook_fn)

    def remove_hook(self, module: torch.nn.Module) -> None:
        """Remove the hook of a module, if there is one."""
        handle = self.hooks.pop(module, None)
        if handle is not None:
            handle.remove()

    def remove_all_hooks(self) -> None:
        """Remove every hook."""
        for module in list(self.hooks):
            self.remove_hook(module)

    def __len__(self) -> int:
        return len(self.hooks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove_all_hooks()

    def __del__(self) -> None:
        if hasattr(self, "hooks"):
            self.remove_all_hooks()
