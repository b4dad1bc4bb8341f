"""`spy_save` inside a compiled graph: an operator that saves what the graph has computed.

torch.compile traces `traced_save` where it meets `spy_save`.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from tensortap import _core
from tensortap.models.living import modules
from tensortap.models.probes import define, find_tensors, make_bytes

_calls: list[tuple[str, ref[Any] | None, bool, bool]] = []  # of spy_save, in compiled code
_order: list[Any] = []  # a tensor: calls that change it are neither removed nor reordered
_libraries: list[Any] = []


def _define() -> None:
    """Register the operator with torch, once."""
    if _libraries:
        return
    import torch

    make: Any = torch.library.Library
    library = make("tensortap", "FRAGMENT")
    define(library, "save_v1(Tensor x, Tensor(a!) order, int call) -> ()")
    library.impl("save_v1", _save, "CompositeExplicitAutograd")
    library.impl("save_v1", torch.library.fallthrough_kernel, "Autograd")  # it has no gradient
    torch.library.register_fake("tensortap::save_v1", lambda x, order, call: None, lib=library)
    _order.append(make_bytes(1))
    _libraries.append(library)


def _save(x: Any, order: Any, call: int) -> None:
    """Run the operator."""
    name, module, norm_only, stats_only = _calls[call]
    of = None if module is None else module()
    _core.spy_save(name, x, of, norm_only=norm_only, stats_only=stats_only)


def _number(name: str, module_id: int, norm_only: bool, stats_only: bool) -> int:
    """Return the number of a call; Dynamo calls this while it traces and keeps the number."""
    _define()
    module = next((ref(one) for one in modules() if id(one) == module_id), None)
    _calls.append((name, module, norm_only, stats_only))
    return len(_calls) - 1


_number._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compiler.assume_constant_result


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
        torch.ops.tensortap.save_v1(one, _order[0], call)
