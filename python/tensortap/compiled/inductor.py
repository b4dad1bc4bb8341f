"""Have the code that Inductor generates call our C function directly.

Its own calls go through torch's dispatcher, which takes longer than the statistics of a small
tensor.  torch 2.13 has a table for that, once Inductor has been imported.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from typing import Any

from tensortap.private.capability import Capability, expect

CODEGEN = "torch._inductor.codegen"

DIRECT = Capability(
    "call the C functions of probes from generated code",
    "probes in compiled graphs take longer, because torch's dispatcher calls them",
)


def call_directly(operators: list[str]) -> None:
    """Write calls of these operators ourselves, where Inductor is imported."""
    if f"{CODEGEN}.wrapper" in sys.modules:
        _add(operators)


@DIRECT.guards(otherwise=None)
def _add(operators: list[str]) -> None:
    from torch._inductor.codegen import custom_extern_kernel_codegen as module

    entry = module.CustomCodegen(python=_write_call)
    expect(entry.python is _write_call, "CustomCodegen is another class")
    for operator in operators:
        module.CUSTOM_EXTERN_KERNEL_CODEGEN.setdefault(operator, entry)


def _write_call(node: Any, writeline: Any) -> None:
    """Write the call of an operator into Inductor's code; if we cannot, Inductor does."""
    line = _call_of(node, writeline.__self__) if DIRECT.works() else None
    if line is not None:
        writeline(line)
        return
    _take_back()
    writeline.__self__.generate_fallback_kernel(node)


@DIRECT.guards(otherwise=None)
def _call_of(node: Any, wrapper: Any) -> str | None:
    name = node.python_kernel_name
    arguments = ", ".join([*node.codegen_args(), *node.codegen_kwargs()])
    if all(tensor.get_device().type == "cpu" for tensor in node.inputs):
        wrapper.add_import_once("from tensortap._core import _probe_v1 as tensortap_probe")
        name = "tensortap_probe"
    return f"{name}({arguments})"


def _take_back() -> None:
    """Leave the calls to Inductor."""
    from torch._inductor.codegen import custom_extern_kernel_codegen as module

    table = module.CUSTOM_EXTERN_KERNEL_CODEGEN
    for operator in [key for key, entry in table.items() if entry.python is _write_call]:
        del table[operator]
