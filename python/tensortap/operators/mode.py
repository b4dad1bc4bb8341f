"""The dispatch mode that torch calls for every operator; it imports torch.

The C class does the work at each operator.  It asks the functions here once for each operator of
torch, code object and module.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from types import CodeType
from typing import Any, Self

import torch

from tensortap import _core
from tensortap.compiled.dynamo import count_graphs
from tensortap.files.owners import Owner, owner_of
from tensortap.models.modules import named_parameters, unwrapped, walk
from tensortap.operators.operator import ITEM_BY_ITEM
from tensortap.private.autograd import RUN_BACKWARD, module_call_codes
from tensortap.private.dispatch_mode import TorchDispatchMode
from tensortap.private.tensors import schema_of, storage_key

# As in python/ext/operators/log.h.
IGNORED, EMPTY, OVERWRITES, EACH = 1, 2, 4, 8
PROGRAM, PACKAGE, TORCH, MODULE, BACKWARD, CHECKPOINT, OPTIMIZER, COMPILED = range(8)

ALLOCATE = {
    "empty", "empty_like", "empty_permuted", "empty_quantized", "empty_strided", "new_empty",
    "new_empty_strided", "resize_", "resize_as_",
}  # fmt: skip
OVERWRITE = {
    "bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_",
    "normal_", "random_", "uniform_", "zero_", "_foreach_copy_", "_foreach_zero_",
}  # fmt: skip

_torch = os.path.dirname(torch.__file__) + os.sep
_kinds = {
    os.path.join(_torch, *path): kind
    for path, kind in (
        (("utils", "checkpoint.py"), CHECKPOINT),
        (("optim", ""), OPTIMIZER),
        (("_inductor", ""), COMPILED),
        (("_functorch", "_aot_autograd", ""), COMPILED),
        (("_functorch", "aot_"), COMPILED),
    )
}
_module_calls = module_call_codes()


def describe(func: Any) -> tuple[int, int, tuple[str, ...]]:
    """Return what kind of operator it is, and the arguments that it writes: positions and names."""
    schema = schema_of(func)
    if schema is None:  # a higher-order operator
        return 0, 0, ()
    space, _, name = schema.name.partition("::")
    if space in ("profiler", "tensortap"):  # ours: the probes in compiled graphs
        return IGNORED, 0, ()
    written, names = 0, []
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        names.append(argument.name)
        if not argument.kwarg_only:
            written |= 1 << i
    flags = EMPTY if name in ALLOCATE else OVERWRITES if name in OVERWRITE else 0
    return flags | (EACH if name.startswith(ITEM_BY_ITEM) else 0), written, tuple(names)


def classify(code: CodeType) -> int:
    """Return whose code it is."""
    owner = owner_of(code)
    if code in _module_calls:
        return MODULE
    if owner <= Owner.PACKAGE:
        return PROGRAM if owner is Owner.PROGRAM else PACKAGE
    if owner is Owner.TORCH and code.co_name == RUN_BACKWARD:
        return BACKWARD
    begins = (kind for begin, kind in _kinds.items() if code.co_filename.startswith(begin))
    return next(begins, TORCH)


class Mode(_core.OperatorLog, TorchDispatchMode):  # type: ignore[misc]
    """Notes every operator while it is entered."""

    supports_higher_order_operators = True

    def __init__(self, model: torch.nn.Module | None, eager: bool, limit: int) -> None:
        super().__init__()
        self._eager = eager
        self._stance: Any = None
        self.has_graphs = False  # some code is compiled in this process
        self._paths: dict[int, str] = {}
        self.parameters: dict[int, str] = {}  # by the address of their storage
        if model is not None and not isinstance(model, torch.nn.Module):
            raise TypeError(f"model must be a torch.nn.Module or None, not {model!r}")
        if model is not None:
            self._add_names(model)
        self._ask(describe, classify, self._name, limit)

    def ignore_compile_internals(self) -> bool:  # torch asks the object
        """Return whether compiled code stays compiled while the mode is on.

        Where it does not, torch never compiles that code again; so a stance is better.
        """
        return True

    def __enter__(self) -> Self:
        """Begin."""
        if self._eager:
            self._stance = torch.compiler.set_stance("force_eager")
            self._stance.__enter__()
        return super().__enter__()  # type: ignore[no-any-return]

    def __exit__(self, *error: Any) -> None:
        """End."""
        super().__exit__(*error)
        if self._stance is not None:
            self._stance.__exit__(*error)
        self.has_graphs = count_graphs() > 0 and not self._eager

    def _name(self, module: torch.nn.Module, root: torch.nn.Module) -> str:
        """Return the path of a module; *root* is the outermost one that is being called."""
        if id(module) not in self._paths:
            self._add_names(root)
        return self._paths.get(id(module), type(module).__name__)

    def _add_names(self, model: torch.nn.Module) -> None:
        for path, module, _ in walk(model):
            self._paths.setdefault(id(module), path)
        inner = unwrapped(model)
        for name, tensor in [*named_parameters(inner).items(), *inner.named_buffers()]:
            try:
                key = storage_key(tensor)
            except Exception:  # one without a storage: lazy, of a subclass
                continue
            if key is not None:
                self.parameters.setdefault(key, name)
