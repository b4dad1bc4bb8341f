"""Name the modules and parameters of a model, without its wrappers.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tensortap.compiled.module_call import GRAPHS
from tensortap.private.modules import children_of, inside, parameters_of, slot_of

if TYPE_CHECKING:
    import torch

#: What to do about what is not seen inside a compiled graph.
RUN_EAGERLY = 'torch.compiler.set_stance("force_eager") runs it as it is written'
CALLED = {"OptimizedModule"}  # a torch that hides compiled modules shows the wrapper alone


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
        if type(module).__name__ in CALLED and not GRAPHS.works():
            yield path, module, True
            is_seen = False
        module = inner
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module, is_seen
    for key, child in children_of(module).items():
        if child is not None:
            yield from walk(child, f"{path}.{key}" if path else key, seen)


def can_run(module: torch.nn.Module) -> bool:
    """Return whether a module has a forward: lists and dicts of modules have none."""
    import torch

    return type(module).forward is not torch.nn.Module.forward or "forward" in module.__dict__


def is_compiled(module: torch.nn.Module) -> bool:
    """Return whether torch.compile runs this module, wrapped or by `module.compile()`."""
    slot = slot_of(module)
    if type(slot).__name__ == "ModuleTap":  # ours; what was there before is in it
        slot = slot.inner
    return slot is not None or type(module).__name__ == "OptimizedModule"


def is_in_graph(module: torch.nn.Module) -> bool:
    """Return whether torch.compile runs this module, also as part of another or of a function."""
    slot = slot_of(module)
    return is_compiled(module) or bool(getattr(slot, "traced", False))


def tensors_of(
    modules: Iterable[tuple[str, torch.nn.Module, bool]],
    table: Callable[[Any], dict[str, Any]] = parameters_of,
) -> Iterator[tuple[str, torch.nn.Module, str]]:
    """Yield (name, module, key) of every parameter of walked modules, once; or of other tables."""
    seen: set[int] = set()
    for path, module, _ in modules:
        for key, tensor in table(module).items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{path}.{key}" if path else key, module, key


def named_parameters(model: torch.nn.Module) -> dict[str, Any]:
    """Return every parameter by its name without wrappers, in torch's order."""
    return {name: parameters_of(module)[key] for name, module, key in tensors_of(walk(model))}
