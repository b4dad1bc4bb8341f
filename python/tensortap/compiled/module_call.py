"""What torch.compile traces where a watched module is called.

Dynamo goes from the call of a module to its `forward` at once, past our object in its slot, unless
the module has a `forward` of its own.  So once something is compiled each watched module gets one
(`_make_forward`), and Dynamo traces `call_module` in place of our object.

Everything that Dynamo calls here (functions marked as constant, those given to `_core`) catches
its errors: the program is then compiled without probes.  The rest is plain enough to be traced.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any

from tensortap import _core
from tensortap.compiled import dynamo
from tensortap.compiled.dynamo import mark_constant
from tensortap.compiled.hooks import skip
from tensortap.compiled.operators import ROW, define_probes, make_bytes, probe_gradient
from tensortap.compiled.results import find_tensors, make_tensor
from tensortap.files.imports import when_imported
from tensortap.private.capability import Capability, expect
from tensortap.private.dispatch import without_modes

INPUTS, OUTPUTS, GRADIENTS = 1, 2, 4  # bits of calls_role, in ModuleTap.probes, like the next
INNER, PLAIN = 8, 16  # module.compile() was called; forward is the function of its class
CALL = 16  # in a row of control bytes, 8 bytes: probe_slots.call in probe/operator.h


def _try_probes() -> None:
    import torch

    expect(torch.compiler.is_exporting() in (False, True), "is_exporting returns something else")
    dynamo.check_constants()
    dynamo.check_slot()
    define_probes()
    toy = _make_plain_bytes(ROW)
    try:
        with without_modes():
            torch.ops.tensortap.probe_v1(toy, toy, 0)
    except (RuntimeError, ValueError) as error:  # of our C function, so torch has called it
        expect("was not made by tensortap" in str(error), str(error))


GRAPHS = Capability(
    "see modules inside compiled graphs",
    "modules inside compiled graphs are not seen",
    _try_probes,
)


def what_hides_modules() -> str | None:
    """Return why compiled code does not show its modules; None: nothing is compiled, or it does."""
    if dynamo.count_frames() == 0 or GRAPHS.works():
        return None
    return GRAPHS.note


# ---- called by Dynamo while it traces


@mark_constant
@GRAPHS.guards(otherwise=False)
def _can_probe() -> bool:
    """Return whether probes may be put: not while torch.export traces.

    Dynamo takes the answer for a constant: tracing torch's own function would keep the frame.
    """
    import torch

    return not torch.compiler.is_exporting()


@mark_constant
@GRAPHS.guards(otherwise=-1)
def _place(kind: str, path: str, is_first: bool, is_last: bool) -> int:
    """Return the slot of a tensor; -1: there is none."""
    return _core._place(kind, path, is_first, is_last)


@mark_constant
def _begin_whole() -> bool:
    """Note that Dynamo traces a whole watched model from here; return whether it did not before."""
    code = None if dynamo.is_whole() else dynamo.traced_code()
    return code is not None and _core._begins_whole(code) and dynamo.set_whole(True)


@mark_constant
def _is_whole() -> bool:
    """Return whether Dynamo traces a part of a watched model together with the whole."""
    return dynamo.is_whole()


@mark_constant
def _end_whole() -> None:
    dynamo.set_whole(False)


# ---- traced


def _probe(tap: Any, kind: str, value: Any, is_first: bool, has_gradients: bool = False) -> bool:
    """Put probes on the tensors of a value; return whether the next is the first of the call."""
    import torch

    slots, row = (tap.shared, tap.row * ROW) if _is_whole() else (None, 0)
    if slots is None:
        slots, row = tap.slots, 0
    if slots is None:
        return is_first
    found: list[tuple[str, Any]] = []
    find_tensors(value, "", 0, found)
    readable = [
        (path, tensor)
        for path, tensor in found
        if tensor.device.type != "meta" and tensor.layout is torch.strided and not tensor.is_nested
    ]
    for i, (path, tensor) in enumerate(readable):
        slot = _place(kind, path, is_first, kind == "output" and i == len(readable) - 1)
        if slot >= 0:
            torch.ops.tensortap.probe_v1(tensor, slots, row + slot)
            is_first = False
        if slot >= 0 and has_gradients and tensor.requires_grad:
            slot = _place("gradient", path, False, False)
            if slot >= 0:
                call = slots[row + CALL : row + CALL + 8].clone()
                probe_gradient(tensor, slots, call, row + slot)
    return is_first


def _run(tap: Any, probes: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module as nn.Module.__call__ would without our object."""
    if probes & INNER:
        return tap.inner(*args, **kwargs)
    module = tap.module()
    if (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    ):
        return module._call_impl(*args, **kwargs)
    if probes & PLAIN:  # not module.forward: its __self__ would need a guard in Python
        return type(module).forward(module, *args, **kwargs)
    return module.forward(*args, **kwargs)


def call_module(tap: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a watched module inside a compiled graph: what torch.compile makes of our call."""
    probes = tap.probes
    if not probes & (OUTPUTS | INPUTS | GRADIENTS) or not _can_probe():
        return _run(tap, probes, args, kwargs)
    begins, is_first = _begin_whole(), True
    if probes & INPUTS:
        is_first = _probe(
            tap, "input", args[0] if len(args) == 1 and not kwargs else args, is_first
        )
        is_first = _probe(tap, "input", kwargs, is_first)
    output = _run(tap, probes, args, kwargs)
    _probe(tap, "output", output, is_first, bool(probes & GRADIENTS))
    if begins:
        _end_whole()
    return output


# ---- called by the module source (python/ext/calls)


def _listen() -> list[Any] | None:
    """Ask Dynamo to tell when it begins to compile; None: it is not there yet, or never tells."""
    return dynamo.listen(_begin_compiling)


def _begin_compiling(_: object = None) -> None:
    _core._begin_compiling()


def _make_plain_bytes(size: int) -> Any:
    """Return control bytes; raise TypeError if a mode of torch made something else of them."""
    import torch

    made = make_bytes(size)
    expect(type(made) is torch.Tensor, f"{type(made).__name__} in place of control bytes")
    return made


@GRAPHS.guards(otherwise=None)
def _make_slots(size: int) -> tuple[Any, bool] | None:
    """Return the control bytes of modules, and whether their code was compiled before."""
    return _make_plain_bytes(size), dynamo.is_compiled_again()


@GRAPHS.guards(otherwise=None)
def _make_forward(module: Any) -> Any:
    """Return the `forward` that a watched module gets as its own: it calls that of the class.

    It looks the class's up at each call, because programs replace it.  None: it needs none.
    """
    import inspect  # not above: it takes as long to import as tensortap

    import torch

    if type(module).forward is torch.nn.Module.forward:  # a list of modules, say
        return None

    @functools.wraps(type(module).forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = type(self).forward
        if isinstance(function, FunctionType):
            return function(self, *args, **kwargs)
        return getattr(function, "__get__", lambda *_: function)(self, type(self))(*args, **kwargs)

    made: Any = forward
    # Where a graph breaks in a forward, this one would be one more frame to compile.
    skip(made.__code__, "DEFAULT")
    # For those who do not follow __wrapped__ when they ask what a forward takes:
    with suppress(ValueError, TypeError):  # no function that has one
        made.__signature__ = inspect.signature(type(module).forward)
    return MethodType(made, module)


def _end_import() -> None:
    dynamo.end_import()
    _core._dynamo_imported()


_core._set_traced_call(call_module, _listen, _make_slots, _make_forward, make_tensor)
if not dynamo.is_imported():  # compiling may import it, with no eager call before
    when_imported("torch._dynamo", _end_import)
