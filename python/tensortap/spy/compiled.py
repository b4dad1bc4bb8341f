"""`spy_save` inside a compiled graph: an operator that saves what the graph has computed.

torch.compile traces `traced_save` where it meets `spy_save`.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from tensortap import _core
from tensortap.compiled.dynamo import mark_constant
from tensortap.compiled.operators import define_operator, make_bytes, make_library
from tensortap.compiled.results import find_tensors
from tensortap.models.living import modules
from tensortap.private.capability import Capability

_calls: list[tuple[str, ref[Any] | None, bool, bool]] = []  # of spy_save, in compiled code
_order: list[Any] = []  # a tensor: calls that change it are neither removed nor reordered


def _define() -> None:
    """Register the operator with torch."""
    library = make_library("FRAGMENT")
    define_operator(library, "save_v1", "(Tensor x, Tensor(a!) order, int call) -> ()")
    library.impl("save_v1", _save, "CompositeExplicitAutograd")
    _order.append(make_bytes(1))


SAVES = Capability(
    "save tensors inside compiled graphs where spy_save is called",
    "calls of spy_save inside compiled graphs are not seen",
    _define,
)


def _save(x: Any, order: Any, call: int) -> None:
    """Run the operator."""
    name, module, norm_only, stats_only = _calls[call]
    of = None if module is None else module()
    _core.spy_save(name, x, of, norm_only=norm_only, stats_only=stats_only)


@mark_constant
@SAVES.guards(otherwise=-1)
def _number(name: str, module_id: int, norm_only: bool, stats_only: bool) -> int:
    """Return the number of a call, -1 for none; Dynamo calls this while it traces and keeps it."""
    module = next((ref(one) for one in modules() if id(one) == module_id), None)
    _calls.append((name, module, norm_only, stats_only))
    return len(_calls) - 1


def traced_save(
    name: str,
    tensor: Any,
    module: Any = None,
    *,
    norm_only: bool = False,
    stats_only: bool = False,
) -> None:
    """Stand for `spy_save` where it is compiled."""
    import torch

    # Compiled code belongs to a class: with id() it is compiled for each module that saves.
    module_id = 0 if module is None else id(module)
    found: list[tuple[str, Any]] = []
    find_tensors(tensor, "", 0, found)
    for path, one in found:
        call = _number(f"{name}{path}", module_id, norm_only, stats_only)
        if call >= 0:
            torch.ops.tensortap.save_v1(one, _order[0], call)
