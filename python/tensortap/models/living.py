"""Find the modules and optimizers that are alive, and which modules contain which.

torch keeps no list of either; Python's garbage collector does.  A search takes tens of
milliseconds, so use it for questions that come up once.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from tensortap.private.modules import is_initialised, parameters_of
from tensortap.private.optimizers import has_stepped_classes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def living(*wanted_kinds: type) -> list[Any]:
    """Return all objects of these classes, or of those derived from them.

    An object refers to its class.  All objects are not asked for (`gc.get_objects`): that takes
    longer, and holds tensors for a moment that another thread is about to free.
    """
    kinds = [one for kind in wanted_kinds for one in _kinds(kind)]
    wanted = set(kinds)
    return [one for one in gc.get_referrers(*kinds) if type(one) in wanted]


def _kinds(kind: type) -> list[type]:
    """Return a class and those derived from it."""
    kinds = [kind]
    for one in kinds:  # grows as it goes
        kinds.extend(one.__subclasses__())
    return kinds


def held(optimizer: Any) -> Iterable[Any]:
    """Yield the parameters of an optimizer."""
    return (p for group in optimizer.param_groups for p in group["params"])


def optimizers() -> list[Any]:
    """Return all optimizers.

    The first optimizer of a class makes torch wrap the class's `step`.  Where no class has such
    a `step` there is no optimizer, and no search.
    """
    from torch.optim import Optimizer

    if not has_stepped_classes(_kinds(Optimizer)):
        return []
    return [one for one in living(Optimizer) if hasattr(one, "param_groups")]


def holds(optimizer: Any, parameters: Collection[int]) -> bool:
    """Return whether an optimizer holds one of these parameters, given by their ids."""
    return hasattr(optimizer, "param_groups") and any(id(p) in parameters for p in held(optimizer))


def holders(parameters: Collection[int]) -> list[Any]:
    """Return the optimizers that hold one of these parameters, given by their ids."""
    return [one for one in optimizers() if holds(one, parameters)]


def all_held() -> set[int]:
    """Return the ids of all parameters that optimizers hold."""
    return {id(p) for one in optimizers() for p in held(one)}


def modules() -> list[Any]:
    """Return all modules."""
    from torch.nn import Module

    return [one for one in living(Module) if is_initialised(one)]


def trained_outside(module: Any) -> bool:
    """Return whether an optimizer holds parameters of modules outside this one."""
    own = {id(p) for p in module.parameters()}
    others = {id(p) for m in modules() for p in parameters_of(m).values() if id(p) not in own}
    return bool(holders(others))


def roots(candidates: list[Any]) -> list[Any]:
    """Return the modules that are not inside another of them, the largest first."""
    inside = {id(c): {id(m) for m in c.modules()} - {id(c)} for c in candidates}
    within = set().union(*inside.values())
    tops = [one for one in candidates if id(one) not in within]
    return sorted(tops, key=lambda one: -len(inside[id(one)]))
