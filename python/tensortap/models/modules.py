"""Name the modules and parameters of a model, without its wrappers.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


#: Attributes under which wrappers keep the module they wrap, and the wrappers.
WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
}
#: What to do about what is not seen inside a compiled graph.
RUN_EAGERLY = 'torch.compiler.set_stance("force_eager") runs it as it is written'
CALLED = {"OptimizedModule"}  # a torch that hides compiled modules shows the wrapper alone


def inside(module: torch.nn.Module) -> torch.nn.Module | None:
    """Return the module that a wrapper wraps; None if this is not a wrapper."""
    for kind in type(module).__mro__:
        if kind.__name__ in WRAPPERS and kind.__module__.startswith("torch."):
            return getattr(module, WRAPPERS[kind.__name__], None)
    return None


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside all wrappers."""
    while (inner := inside(module)) is not None:
        module = inner
    return module


def walk(
    module: torch.nn.Module, path: str = "", seen: set[int] | None = None
) -> Iterator[tuple[str, torch.nn.Module, bool]]:
    """Yield (name without wrappers, module, is called), each once."""
    seen = set() if seen is None else seen
    is_seen = True
    while (inner := inside(module)) is not None:
        if type(module).__name__ in CALLED:
            from tensortap.models.probes import is_slot_traced  # which imports this file

            if not is_slot_traced():
                yield path, module, True
                is_seen = False
        module = inner
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module, is_seen
    for key, child in module._modules.items():
        if child is not None:
            yield from walk(child, f"{path}.{key}" if path else key, seen)


def can_run(module: torch.nn.Module) -> bool:
    """Return whether a module has a forward: lists and dicts of modules have none."""
    import torch

    return type(module).forward is not torch.nn.Module.forward or "forward" in module.__dict__


def is_compiled(module: torch.nn.Module) -> bool:
    """Return whether torch.compile runs this module, wrapped or by `module.compile()`."""
    slot: Any = module.__dict__.get("_compiled_call_impl")
    if type(slot).__name__ == "ModuleTap":  # ours; what was there before is in it
        slot = slot.inner
    return slot is not None or type(module).__name__ == "OptimizedModule"


def is_in_graph(module: torch.nn.Module) -> bool:
    """Return whether torch.compile runs this module, also as part of another or of a function."""
    slot: Any = module.__dict__.get("_compiled_call_impl")
    return is_compiled(module) or bool(getattr(slot, "traced", False))


def tensors_of(
    modules: Iterable[tuple[str, torch.nn.Module, bool]], kind: str = "_parameters"
) -> Iterator[tuple[str, torch.nn.Module, str]]:
    """Yield (name, module, key) of every parameter, or buffer, of walked modules, once."""
    seen: set[int] = set()
    for path, module, _ in modules:
        for key, tensor in getattr(module, kind).items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{path}.{key}" if path else key, module, key


def named_parameters(model: torch.nn.Module) -> dict[str, Any]:
    """Return every parameter by its name without wrappers, in torch's order."""
    return {name: module._parameters[key] for name, module, key in tensors_of(walk(model))}
