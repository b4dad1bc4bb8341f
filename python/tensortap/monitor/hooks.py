"""Forward hooks that are removed together.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

from tensortap.compiled.hooks import unseen

if TYPE_CHECKING:
    import torch


def weakly(owner: object, method: Any, otherwise: Any = None) -> Callable[..., Any]:
    """Wrap a bound method such that the wrapper keeps neither its object nor *owner* alive.

    Returns *otherwise* once they are gone; a call holds *owner* until it returns. Dynamo never
    compiles it.
    """
    weak_owner, weak_self, function = ref(owner), ref(method.__self__), method.__func__

    def call(*args: Any) -> Any:
        alive, bound = weak_owner(), weak_self()
        return otherwise if alive is None or bound is None else function(bound, *args)

    return unseen(call, is_traced=False)


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
