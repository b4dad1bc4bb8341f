"""Define operators that look at tensors inside compiled graphs: tensortap::probe_v1 and others.

The control bytes that an operator reads lie in a small tensor (`python/ext/probe/operator.h`).  Its
schema says that it changes them, so that graphs neither drop nor reorder it.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from tensortap import _core
from tensortap.compiled import dynamo, inductor
from tensortap.compiled.functorch import is_transforming
from tensortap.devices import statistics
from tensortap.private.capability import Capability
from tensortap.private.dispatch import without_modes

ROW = 256  # control bytes for each module: PROBE_BYTES in probe/operator.h
SCHEMAS = {
    "probe_v1": "(Tensor x, Tensor(a!) slots, int slot) -> ()",
    "probe_gradient_v1": "(Tensor x, Tensor(a!) slots, Tensor call, int slot) -> ()",
}
NAMES = [f"torch.ops.tensortap.{name}.default" for name in SCHEMAS]

# How torch is to treat our operators, where it knows these tags.  Replays of a CUDA graph would not
# run what they do on the host, so they stay outside of it; and they read tensors of any strides.
TAGS = ("pt2_compliant_tag", "cudagraph_unsafe", "flexible_layout")

IS_FORCED = os.environ.get("TENSORTAP_DEVICE_PATH") == "1"  # CPU tensors as those of a device

_libraries: list[Any] = []  # torch forgets what it was told when they go


def define_operator(library: Any, name: str, schema: str) -> None:
    """Define an operator that looks at a tensor and has no gradient."""
    import torch

    tags = [getattr(torch.Tag, tag) for tag in TAGS if hasattr(torch.Tag, tag)]
    library.define(name + schema, tags=tags)
    library.impl(name, torch.library.fallthrough_kernel, "Autograd")
    torch.library.register_fake(f"tensortap::{name}", _pass_by, lib=library)


def make_library(kind: str) -> Any:
    """Return a part of our namespace of operators: "DEF" is the first, others are "FRAGMENT"."""
    import torch

    make: Any = torch.library.Library
    library = make("tensortap", kind)
    _libraries.append(library)
    return library


def make_bytes(size: int) -> Any:
    """Return a tensor of zeros that operators change, so that they are not removed."""
    import torch

    with torch.inference_mode(False), without_modes():
        made = torch.zeros(size, dtype=torch.uint8, device="cpu")
    dynamo.keep_address(made)
    return made


def define_probes() -> None:
    """Register the probes with torch; raise an exception if that is not possible."""
    import torch

    library = make_library("DEF")
    is_in_c = not IS_FORCED and _core._probe_register()
    for name, schema in SCHEMAS.items():
        define_operator(library, name, schema)
        if not is_in_c:  # a torch without the C interface
            library.impl(name, _run_on_device if IS_FORCED else _core._probe_v1, "CPU")
        library.impl(name, _run_on_device, "CompositeExplicitAutograd")  # where nothing else is
        torch.library.register_vmap(
            f"tensortap::{name}", lambda info, dims, *args: (None, None), lib=library
        )
    torch.compiler.allow_in_graph(probe_gradient)  # type: ignore[no-untyped-call]
    torch.fx.node.has_side_effect(probe_gradient)


def _pass_by(_: Any, slots: Any, *__: object) -> None:
    """Stand for an operator where tensors have no values: while something is compiled."""
    _check_device(slots)
    if not IS_FORCED:
        inductor.call_directly(NAMES)


def _check_device(slots: Any) -> None:
    if slots.device.type != "cpu":
        raise RuntimeError(
            f"tensortap::probe_v1: slots is on {slots.device}; it must be on the CPU, as tensortap "
            "made it, whatever device x is on"
        )


def _run_on_device(x: Any, slots: Any, *rest: Any) -> None:
    """Run a probe for a tensor of another device; nothing waits for that device.

    Its statistics are started now and read later.  The log gets a number that stands for them.
    """
    _check_device(slots)
    if x.device.type == "meta":
        return
    dtype = str(x.dtype).removeprefix("torch.")
    start = functools.partial(statistics.start, x)
    call = rest[-2] if len(rest) > 1 else None
    if _core._probe_on_device(slots, call, rest[-1], dtype, tuple(x.shape), start):
        _core._probe_v1(x.cpu(), slots, *rest)


GRADIENTS = Capability(
    "see gradients of outputs inside compiled graphs",
    "gradients of outputs inside compiled graphs are not seen",
)


@GRADIENTS.guards(otherwise=None)
def probe_gradient(x: Any, slots: Any, call: Any, slot: int) -> None:
    """Probe the gradient of a tensor, when there is one.

    Dynamo does not trace this function but calls it in the graph; AOTAutograd then traces the hook.
    """
    if x.requires_grad and not is_transforming():
        x.register_hook(_gradient_hook(slots, call, slot))


def _gradient_hook(slots: Any, call: Any, slot: int) -> Callable[[Any], None]:
    import torch

    return lambda gradient: torch.ops.tensortap.probe_gradient_v1(gradient, slots, call, slot)
