"""Name the modules and parameters of a model, without its wrappers.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tensortap.compiled.module_call import GRAPHS
from tensortap.private.modules import (
    COMPILED,
    children_of,
    inside,
    parameters_of,
    slot_of,
    wrapper_of,
)

if TYPE_CHECKING:
    import torch

#: The name of the model itself; what follows another tool has its own, in its inherited.py.
ROOT = "(root)"
#: What to do about what is not seen inside a compiled graph.
RUN_EAGERLY = 'torch.compiler.set_stance("force_eager") runs it as it is written'


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside all wrappers."""
    while (inner := inside(module)) is not None:
        module = inner
    return module


def class_of(module: torch.nn.Module) -> type:
    """Return the class that the program wrote: FSDP2 puts one of its own before it."""
    kinds = type(module).__mro__
    return next((k for k in kinds if not k.__module__.startswith("torch.distributed.")), kinds[0])


def walk(
    module: torch.nn.Module,
    path: str = "",
    seen: set[int] | None = None,
    *,
    with_wrappers: bool = False,
) -> Iterator[tuple[str, torch.nn.Module, bool]]:
    """Yield (name without wrappers, module, whether its calls are seen), each once.

    A wrapper has the name of what it wraps.  It is left out unless asked for, or unless its calls
    are all that a torch shows of a compiled module.
    """
    seen = set() if seen is None else seen
    is_seen = True
    while (inner := inside(module)) is not None:
        is_all = wrapper_of(module) == COMPILED and not GRAPHS.works()
        if is_all or with_wrappers:
            yield path, module, is_all
        is_seen = is_seen and not is_all
        module = inner
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module, is_seen
    for key, child in children_of(module).items():
        if child is not None:
            name = f"{path}.{key}" if path else key
            yield from walk(child, name, seen, with_wrappers=with_wrappers)


def module_name(path: str, known: Container[str]) -> str:
    """Return the longest name of a known module that the path of a tensor begins with; "": none."""
    while path and path not in known:
        path = path.rpartition(".")[0]
    return path


def can_run(module: torch.nn.Module) -> bool:
    """Return whether a module has a forward: lists and dicts of modules have none."""
    import torch

    return type(module).forward is not torch.nn.Module.forward or "forward" in module.__dict__


def is_compiled(module: torch.nn.Module) -> bool:
    """Return whether torch.compile runs this module, wrapped or by `module.compile()`."""
    slot = slot_of(module)
    if type(slot).__name__ == "ModuleTap":  # ours; what was there before is in it
        slot = slot.inner
    return slot is not None or wrapper_of(module) == COMPILED


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
