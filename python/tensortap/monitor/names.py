"""What modules and parameters are called in the keys of metrics.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from tensortap.models.modules import can_run
from tensortap.private.modules import PREFIXES

ROOT = "[root module]"


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


def is_ddp(module: torch.nn.Module) -> bool:
    """Return whether this is a DistributedDataParallel object."""
    return any(kind.__name__ == "DistributedDataParallel" for kind in type(module).__mro__)


def formatter(root: torch.nn.Module, format_fn: Callable[[str], str]) -> Callable[[str], str]:
    """Return the function from raw names below this root to those in keys."""
    if not is_ddp(root):
        return format_fn

    def without_ddp(name: str) -> str:
        return format_fn("" if name == "module" else name.removeprefix("module."))

    return without_ddp


def modules(
    root: torch.nn.Module, format_fn: Callable[[str], str]
) -> Iterator[tuple[str, torch.nn.Module, bool]]:
    """Yield (formatted name, module, whether to look at its calls).

    A list of modules has none, and what the root only wraps has those of the root.
    """
    formatted = formatter(root, format_fn)
    inside = {"module"} if is_ddp(root) else set(PREFIXES)
    for name, module in root.named_modules():
        yield formatted(name), module, can_run(module) and name not in inside
