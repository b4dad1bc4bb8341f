"""See modules inside compiled graphs: the operators tensortap::probe_v1 and who calls them.

Where torch.compile traces the call of a watched module, it traces `call_module` of this file
in place of our object in the module's slot.  That calls the operator on the tensors that
the module returns.  The operator itself is in C (`python/ext/probe`).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import os
import sys
from types import FunctionType, MethodType
from typing import Any

from tensortap import _core
from tensortap.devices import statistics
from tensortap.files.imports import when_imported
from tensortap.models.modules import can_run
from tensortap.models.unseen import skip

INPUTS, OUTPUTS, GRADIENTS = 1, 2, 4  # bits of calls_role, in ModuleTap.probes, like the next
INNER, PLAIN = 8, 16  # module.compile() was called; forward is the function of its class
MOST_DEEP, MOST_TENSORS = 8, 256  # as tensor/walk.h

ROW = 256  # bytes of slots for each module: PROBE_BYTES in probe/operator.h
CALL = 16  # in a row, 8 bytes: probe_slots.call there
SCHEMAS = {
    "probe_v1": "(Tensor x, Tensor(a!) slots, int slot) -> ()",
    "probe_gradient_v1": "(Tensor x, Tensor(a!) slots, Tensor call, int slot) -> ()",
}

# How torch is to treat our operators, where it knows these tags.  Replays of a CUDA graph would not
# run what they do on the host, so they stay outside of it; and they read tensors of any strides.
TAGS = ("pt2_compliant_tag", "cudagraph_unsafe", "flexible_layout")

IS_FORCED = os.environ.get("TENSORTAP_DEVICE_PATH") == "1"  # CPU tensors as those of a device

_libraries: list[Any] = []  # torch forgets what it was told when they go


def define(library: Any, schema: str) -> None:
    """Define an operator that looks at a tensor."""
    import torch

    tags = [getattr(torch.Tag, tag) for tag in TAGS if hasattr(torch.Tag, tag)]
    library.define(schema, tags=tags)


def make_bytes(size: int) -> Any:
    """Return a tensor of zeros that operators change, so that they are not removed.

    CUDA graphs allow that of tensors that stay where they are.
    """
    import torch

    with torch.inference_mode(False), torch.utils._python_dispatch._disable_current_modes():
        made = torch.zeros(size, dtype=torch.uint8, device="cpu")
    torch._dynamo.mark_static_address(made, guard=False)
    return made


def _define() -> None:
    """Register the operators with torch, once."""
    if _libraries:
        return
    import torch

    make: Any = torch.library.Library
    library = make("tensortap", "DEF")
    _libraries.append(library)
    for name, schema in SCHEMAS.items():
        define(library, name + schema)
    is_in_c = not IS_FORCED and _core._probe_register()
    for name in SCHEMAS:
        if not is_in_c:  # a torch without the C interface
            library.impl(name, _run_on_device if IS_FORCED else _core._probe_v1, "CPU")
        library.impl(name, torch.library.fallthrough_kernel, "Autograd")  # it has no gradient
        library.impl(name, _run_on_device, "CompositeExplicitAutograd")  # where nothing else is
        torch.library.register_fake(f"tensortap::{name}", _check, lib=library)
        torch.library.register_vmap(
            f"tensortap::{name}", lambda info, dims, *args: (None, None), lib=library
        )
    torch.compiler.allow_in_graph(_hook)  # type: ignore[no-untyped-call]
    torch.fx.node.has_side_effect(_hook)


def _check(x: Any, slots: Any, *_: object) -> None:
    """Stand for the operators where tensors have no values: while something is compiled."""
    from torch._guards import TracingContext
    from torch._subclasses import FakeTensor

    _call_directly()
    if isinstance(x, FakeTensor) and TracingContext.try_get() is None:
        raise RuntimeError(
            "tensortap::probe_v1: x is a fake tensor, which has no values, and nothing is compiled "
            "now; call the operator with real tensors"
        )
    if slots.device.type != "cpu":
        raise RuntimeError(
            f"tensortap::probe_v1: slots is on {slots.device}; it must be on the CPU, as tensortap "
            "made it, whatever device x is on"
        )


def _call_directly() -> None:
    """Have Inductor write calls of our C function, where it has a table for that.

    Its own calls go through torch's dispatcher, which takes longer than the statistics of a small
    tensor.  torch 2.13 has the table, once Inductor has been imported.  Where there is
    none, nothing changes.
    """
    module = sys.modules.get("torch._inductor.codegen.custom_extern_kernel_codegen")
    table = getattr(module, "CUSTOM_EXTERN_KERNEL_CODEGEN", None)
    if table is not None and not IS_FORCED:
        for name in SCHEMAS:
            table.setdefault(
                f"torch.ops.tensortap.{name}.default",
                module.CustomCodegen(python=_write_call),  # type: ignore[union-attr]
            )


def _write_call(node: Any, writeline: Any) -> None:
    """Write the call of an operator into Inductor's code."""
    from torch._inductor.virtualized import V

    name = node.python_kernel_name
    if all(tensor.get_device().type == "cpu" for tensor in node.inputs):
        V.graph.wrapper_code.add_import_once(
            "from tensortap._core import _probe_v1 as tensortap_probe"
        )
        name = "tensortap_probe"
    writeline(f"{name}({', '.join([*node.codegen_args(), *node.codegen_kwargs()])})")


def _run_on_device(x: Any, slots: Any, *rest: Any) -> None:
    """Run an operator for a tensor of another device; nothing waits for that device.

    Its statistics are started now and read later.  The log gets a number that stands for them.
    """
    _check(x, slots)
    if x.device.type == "meta":
        return
    dtype = str(x.dtype).removeprefix("torch.")
    start = functools.partial(statistics.start, x)
    call = rest[-2] if len(rest) > 1 else None
    if _core._probe_on_device(slots, call, rest[-1], dtype, tuple(x.shape), start):
        _core._probe_v1(x.cpu(), slots, *rest)


def _hook(x: Any, slots: Any, call: Any, slot: int) -> None:
    """Probe the gradient of a tensor, when there is one.

    Dynamo does not trace this function but calls it in the graph; AOTAutograd then traces the hook.
    """
    import torch

    if x.requires_grad and not torch._C._are_functorch_transforms_active():
        x.register_hook(
            lambda gradient: torch.ops.tensortap.probe_gradient_v1(gradient, slots, call, slot)
        )


def _make_slots(size: int) -> tuple[Any, bool]:
    """Return a tensor for the slots of modules, and if their code was compiled before."""
    from torch._guards import CompileContext

    _define()
    number = getattr(CompileContext.current_compile_id(), "frame_compile_id", 0)
    return make_bytes(size), bool(number)


def _listen() -> list[Any] | None:
    """Ask Dynamo to tell when it begins to compile.

    Returns:
        Its list of callbacks, which `torch._dynamo.reset()` empties; None: it is not there yet.
    """
    dynamo = sys.modules["torch._dynamo"]
    try:
        from torch._dynamo import convert_frame
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(_begin_compiling)
        if convert_frame.FRAME_COUNTER > 0:
            _core._begin_compiling()
        return callback_handler.start_callbacks
    except (ImportError, AttributeError):
        if not getattr(dynamo.__spec__, "_initializing", False):
            _core._begin_compiling()  # a torch that tells nobody
        return None


def _begin_compiling(_: object = None) -> None:
    _core._begin_compiling()


def _place(kind: str, path: str, is_first: bool, is_last: bool) -> int:
    """Return the slot of a tensor; Dynamo calls this while it traces and keeps the number."""
    return _core._place(kind, path, is_first, is_last)


def _is_exporting() -> bool:
    """Return whether torch.export is tracing.

    Dynamo takes the answer for a constant: tracing torch's own function would keep the frame.
    """
    import torch

    return torch.compiler.is_exporting()


def _begin_whole() -> bool:
    """Note that Dynamo traces a whole watched model from here; return whether it did not before."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    output = InstructionTranslator.current_tx().output
    begins = not _is_whole() and _core._begins_whole(output.root_tx.f_code)
    if begins:
        output.tracing_context.tensortap_is_whole = True  # type: ignore[attr-defined]
    return begins


def _is_whole() -> bool:
    """Return whether Dynamo traces a part of a watched model together with the whole."""
    from torch._guards import TracingContext

    return getattr(TracingContext.try_get(), "tensortap_is_whole", False)


def _end_whole() -> None:
    from torch._guards import TracingContext

    TracingContext.get().tensortap_is_whole = False  # type: ignore[attr-defined]


for _function in (_place, _is_exporting, _begin_whole, _is_whole, _end_whole):
    vars(_function)["_dynamo_marked_constant"] = True  # as torch.compiler.assume_constant_result


def find_tensors(value: Any, path: str, depth: int, found: list[tuple[str, Any]]) -> None:
    """List the tensors in what a module returns, as tensor/walk.c finds them."""
    import torch

    if isinstance(value, torch.Tensor):
        if len(found) < MOST_TENSORS:
            found.append((path, value))
    elif depth == MOST_DEEP:
        return
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            find_tensors(item, f"{path}.{i}", depth + 1, found)
    elif isinstance(value, dict):
        for key, item in value.items():
            find_tensors(item, f"{path}.{key}", depth + 1, found)
    elif hasattr(value, "__dataclass_fields__"):  # torch 2.6 does not trace this of type(value)
        for key in value.__dataclass_fields__:
            find_tensors(getattr(value, key, None), f"{path}.{key}", depth + 1, found)


def _probe(tap: Any, kind: str, value: Any, is_first: bool, has_gradients: bool = False) -> bool:
    """Put probes on the tensors of a value; say if the next one is the first of the call."""
    import torch

    slots, row = (tap.shared, tap.row * ROW) if _is_whole() else (None, 0)
    if slots is None:
        slots, row = tap.slots, 0
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
                _hook(tensor, slots, call, row + slot)
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
    if not probes & (OUTPUTS | INPUTS | GRADIENTS) or _is_exporting():
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


@functools.cache
def is_slot_traced() -> bool:
    """Return whether Dynamo traces nn.Module.__call__, which looks into our slot.

    That of torch 2.6 traces _call_impl in its place: then nothing is seen in compiled graphs.
    """
    import inspect  # not above: it takes as long to import as tensortap

    from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable

    source = inspect.getsource(UnspecializedNNModuleVariable.call_function)
    return "is not unpatched_nn_module_call" not in source


def what_hides_modules() -> str | None:
    """Return why compiled code does not show its modules; None: nothing is compiled, or it does."""
    frames = sys.modules.get("torch._dynamo.convert_frame")
    if getattr(frames, "FRAME_COUNTER", 0) == 0 or is_slot_traced():
        return None
    version = sys.modules["torch"].__version__
    return f"torch {version} does not show modules inside compiled code: update it (2.13 does)"


def _make_forward(module: Any) -> Any:
    """Return the `forward` that a watched module gets as its own: it calls that of the class.

    It looks the class's up at each call, because programs replace it.  None: it needs none.
    """
    import inspect

    if not is_slot_traced() or not can_run(module):
        return None

    @functools.wraps(type(module).forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = type(self).forward
        if isinstance(function, FunctionType):
            return function(self, *args, **kwargs)
        return getattr(function, "__get__", lambda *_: function)(self, type(self))(*args, **kwargs)

    # Where a graph breaks in a forward, this one would be one more frame to compile.
    skip(forward.__code__, "DEFAULT")  # type: ignore[attr-defined]
    # For those who do not follow __wrapped__ when they ask what a forward takes:
    forward.__signature__ = inspect.signature(type(module).forward)  # type: ignore[attr-defined]
    return MethodType(forward, module)


def _make_tensor(data: bytearray, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return a tensor with these elements, which a probe has copied."""
    import torch

    kind = getattr(torch, dtype)
    empty = torch.empty(0, dtype=kind)
    return (torch.frombuffer(data, dtype=kind) if data else empty).reshape(shape)


_core._set_traced_call(call_module, _listen, _make_slots, _make_forward, _make_tensor)
if "torch._dynamo" not in sys.modules:  # compiling may import it, with no eager call before
    when_imported("torch._dynamo", _core._dynamo_imported)
