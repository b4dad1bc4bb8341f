"""What Dynamo, the tracer of torch.compile, does now.

Nothing here imports torch._dynamo before the program does: that takes a second.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from tensortap.private.capability import Capability, expect, find

Function = TypeVar("Function", bound=Callable[..., Any])


def mark_constant(function: Function) -> Function:
    """Have Dynamo call a function while it traces, and keep the result as a constant.

    As torch.compiler.assume_constant_result, which imports Dynamo.  Such a function is plain
    Python: it may do what Dynamo cannot trace, and its errors can be caught.
    """
    vars(function)["_dynamo_marked_constant"] = True
    return function


def check_constants() -> None:
    """Raise an exception if Dynamo marks such functions in another way."""
    import torch

    def toy() -> None:
        pass

    torch.compiler.assume_constant_result(toy)  # type: ignore[no-untyped-call]
    expect(vars(toy) == {"_dynamo_marked_constant": True}, "functions are marked in another way")


# ---- has it compiled anything?


def _try_counts() -> None:
    for count in (_frames(), _graphs()):
        expect(type(count) is int, "Dynamo's counters are not numbers")


COUNTS = Capability(
    "know whether torch.compile has compiled anything",
    "whether torch.compile has compiled anything is not known",
    _try_counts,
)


def _frames() -> Any:
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    return 0 if dynamo is None else dynamo.FRAME_COUNTER


def _graphs() -> Any:
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else dynamo.counters["stats"]["unique_graphs"]


@COUNTS.guards(otherwise=0)
def count_frames() -> int:
    """Return how many Python frames Dynamo has compiled, or tried to."""
    return int(_frames())


@COUNTS.guards(otherwise=0)
def count_graphs() -> int:
    """Return how many graphs Dynamo has made."""
    return int(_graphs())


def is_imported() -> bool:
    """Return whether something may have been compiled: Dynamo has been imported."""
    return "torch._dynamo" in sys.modules


LINES = Capability(
    "warn of functions whose lines are not seen because torch.compile runs them as a graph",
    "which functions run compiled is not known, and their lines are not seen",
    lambda: _compiled_codes(),
)


def _compiled_codes() -> Any:
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    codes = () if dynamo is None else dynamo.output_codes
    expect(hasattr(codes, "__contains__"), "output_codes is not a collection")
    return codes


@LINES.guards(otherwise=False)
def is_compiled_code(code: CodeType) -> bool:
    """Return whether Dynamo has written this code."""
    return code in _compiled_codes()


# ---- when does it begin?


STARTS = Capability(
    "prepare watched modules when torch.compile begins to compile, and not before",
    "watched modules are prepared for torch.compile as soon as Dynamo is imported, which makes "
    "their calls slower",
)


_is_complete = False  # its import has ended


def end_import() -> None:
    """Note that all of Dynamo has been imported; Python itself says so a moment later."""
    global _is_complete
    _is_complete = True


def listen(begin: Callable[..., None]) -> list[Any] | None:
    """Have Dynamo call *begin* whenever it begins to compile; call it now if it has begun.

    Returns:
        Dynamo's list of such functions, which `torch._dynamo.reset()` empties; None: Dynamo is
        still being imported, or does not tell (*begin* was called).
    """
    try:
        from torch._dynamo.callback import callback_handler

        handlers: list[Any] = find(callback_handler, "start_callbacks", list)
        callback_handler.register_start_callback(begin)
        expect(begin in handlers, "register_start_callback does not register")
    except Exception as error:
        spec = sys.modules["torch._dynamo"].__spec__
        if _is_complete or not getattr(spec, "_initializing", False):
            STARTS.lose(error)
            begin()
        return None
    if count_frames() > 0 or not COUNTS.works():
        begin()
    return handlers


# ---- what does it trace now?


WHOLE = Capability(
    "give all modules of a model that is compiled whole one common input",
    "compiled graphs have an input for each watched module, which makes their calls slower",
)


@WHOLE.guards(otherwise=None)
def traced_code() -> CodeType | None:
    """Return the code that Dynamo has begun to trace in this thread."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    code = InstructionTranslator.current_tx().output.root_tx.f_code
    expect(isinstance(code, CodeType), "Dynamo traces something that is no code")
    return code


@WHOLE.guards(otherwise=False)
def set_whole(is_whole: bool) -> bool:
    """Remember for this tracing that a whole watched model is traced; return whether it is."""
    from torch._guards import TracingContext

    context: Any = TracingContext.get()
    context.tensortap_is_whole = is_whole
    return is_whole


@WHOLE.guards(otherwise=False)
def is_whole() -> bool:
    """Return whether a whole watched model is traced now: Dynamo forgets it at the end."""
    from torch._guards import TracingContext

    return getattr(TracingContext.try_get(), "tensortap_is_whole", False) is True


AGAIN = Capability(
    "know that code was compiled before it was watched",
    "whether code is compiled again because it is watched is not known",
)


@AGAIN.guards(otherwise=False)
def is_compiled_again() -> bool:
    """Return whether the code that is compiled now was compiled before."""
    from torch._guards import CompileContext

    now = CompileContext.current_compile_id()
    return now is not None and find(now, "frame_compile_id", (int, type(None))) not in (None, 0)


STATIC = Capability(
    "let CUDA graphs hold the control bytes of probes",
    "compiled graphs that hold probes run without CUDA graphs",
)


@STATIC.guards(otherwise=None)
def keep_address(tensor: Any) -> None:
    """Promise that a tensor that graphs change stays where it is."""
    from torch._dynamo import mark_static_address

    mark_static_address(tensor, guard=False)


# ---- does it look into the slot of a module?


class _Traced(Exception):
    """A function that Dynamo would trace."""


class _Nothing:
    """A tracer that knows nothing, and stops at the first function."""

    def __getattr__(self, _: str) -> Any:
        return self

    def __call__(self, *_: object, **__: object) -> Any:
        return self

    def __bool__(self) -> bool:
        return False

    def inline_user_function_return(self, function: Any, *_: object, **__: object) -> None:
        raise _Traced(function.get_code())


def check_slot() -> None:
    """Raise an exception if Dynamo traces calls of modules past our slot, as that of torch 2.6.

    It must trace nn.Module.__call__ where a module has a `forward` of its own.
    """
    import torch
    from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable

    toy: Any = torch.nn.Identity()
    toy.forward = toy.forward
    call: Any = torch.nn.Module.__call__
    try:
        UnspecializedNNModuleVariable(toy).call_function(_Nothing(), [], {})  # type: ignore[arg-type]
    except _Traced as traced:
        if traced.args[0] is call.__code__:
            return
    raise RuntimeError(
        "this torch compiles calls of modules in a way that hides them (2.13 does not)"
    )
