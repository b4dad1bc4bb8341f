"""The private parts of nn.Module.

The module source uses more of them: the list at the top of python/ext/calls/source.c.  Without
`_compiled_call_impl` there, `tt.watch` raises TypeError: nothing could be seen.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

from tensortap.private.capability import Capability, find, register_all


def parameters_of(module: Any) -> dict[str, Any]:
    """Return the parameters of a module alone, by their keys."""
    return module._parameters  # type: ignore[no-any-return]


def buffers_of(module: Any) -> dict[str, Any]:
    """Return the buffers of a module alone, by their keys."""
    return module._buffers  # type: ignore[no-any-return]


def children_of(module: Any) -> dict[str, Any]:
    """Return the submodules of a module, by their keys; some may be None."""
    return module._modules  # type: ignore[no-any-return]


def is_initialised(module: Any) -> bool:
    """Return whether nn.Module.__init__ has run."""
    return hasattr(module, "_modules")


def slot_of(module: Any) -> Any:
    """Return what nn.Module.__call__ calls in place of `forward`: our object, or a compiled one."""
    return module.__dict__.get("_compiled_call_impl")


#: The attributes under which wrappers keep the module that they wrap, by their classes.
WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "_FabricModule": "_forward_module",
    "DeepSpeedEngine": "module",
    "ActivationWrapper": "_checkpoint_wrapped_module",
}
PACKAGES = {"torch", "lightning", "lightning_fabric", "deepspeed"}  # that define them
COMPILED = "OptimizedModule"

UNWRAPPING = Capability(
    "name modules as they are called without DDP, FSDP and torch.compile around them",
    "names of modules contain their wrappers",
)


def wrapper_of(module: Any) -> str | None:
    """Return which of WRAPPERS a module is; None if it is none."""
    for kind in type(module).__mro__:
        if kind.__name__ in WRAPPERS and kind.__module__.partition(".")[0] in PACKAGES:
            return kind.__name__
    return None


def inside(module: Any) -> Any:
    """Return the module that a wrapper wraps; None if this is not a wrapper."""
    wrapper = wrapper_of(module)
    is_complete = wrapper is not None and bool(children_of(module))  # else its __init__ goes on
    return _wrapped(module, WRAPPERS[wrapper]) if wrapper is not None and is_complete else None


@UNWRAPPING.guards(otherwise=None)
def _wrapped(module: Any, name: str) -> Any:
    from torch.nn import Module

    return find(module, name, Module)


CREATION = Capability(
    "see models under `tensortap run` before their first optimizer step",
    "calls of models before their first optimizer step are not seen",
)


@CREATION.guards(otherwise=None)
def on_registration(hook: Any) -> None:
    """Call *hook* whenever a module registers a parameter or a submodule."""
    from torch.nn.modules import module

    register_all(
        (module.register_module_parameter_registration_hook, hook),
        (module.register_module_module_registration_hook, hook),
    )
