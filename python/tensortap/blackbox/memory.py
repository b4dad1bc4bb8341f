"""Memory for copies of tensors that is used again and again.

One block for each batch and each snapshot.  The first copy decides how large it is; after that a
copy allocates nothing unless it needs more room.  Fresh pages cost more than the copy itself.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import mmap
from functools import cache
from typing import Any

from tensortap import _core
from tensortap.blackbox.values import Tree, take_apart
from tensortap.private.tensors import version_of

#: Names of types in a .safetensors file.
WORDS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
}
Entry = tuple[str, str, tuple[int, ...], int]  # name, type in the file, shape, offset


class Kept:
    """A copy of a nested value."""

    def __init__(self, value: Any, memory: Memory, *, seen: bool = False) -> None:
        """Copy the tensors into *memory*; *seen*: note which tensors they were."""
        tensors: dict[str, Any] = {}

        def keep(name: str, tensor: Any) -> bool:
            is_fine = can_keep(tensor)
            if is_fine:
                tensors[name] = tensor
            return is_fine

        self.tree: Tree = take_apart(value, "", keep)
        self.memory = memory
        memory.keep(tensors)
        self.names = {identity(tensor): name for name, tensor in tensors.items()} if seen else {}


def identity(tensor: Any) -> tuple[Any, ...]:
    """Return what stays the same while a tensor has the same contents."""
    try:
        return tensor.data_ptr(), version_of(tensor), tensor.shape, tensor.dtype, tensor.stride()
    except RuntimeError:  # an inference tensor has no version, a fake one no memory
        return (id(tensor),)


class Memory:
    """Copies of some tensors, one behind the other."""

    def __init__(self) -> None:
        self.block: mmap.mmap | None = None
        self.used = 0
        self.entries: list[Entry] = []
        self._layout: tuple[Any, ...] = ()
        self._offsets: list[int] = []

    @property
    def size(self) -> int:
        """The bytes that it has allocated."""
        return len(self.block) if self.block is not None else 0

    def keep(self, tensors: dict[str, Any]) -> None:
        """Copy these tensors, in place of those that were there."""
        layout = tuple((name, t.dtype, t.shape) for name, t in tensors.items())
        if layout != self._layout:
            self._lay_out(layout)
        if self.block is None or not self.used:
            return
        for i in _core.copy_into(self.block, list(tensors.values()), self._offsets):
            tensor = tensors[layout[i][0]].detach().cpu().contiguous()  # of another device, mostly
            if _core.copy_into(self.block, [tensor], [self._offsets[i]]):
                raise TypeError(f"{layout[i][0]} cannot be read")

    def _lay_out(self, layout: tuple[Any, ...]) -> None:
        """Choose a place for each tensor: wide elements first, so that all are aligned."""
        self._layout = ()
        offsets, used = [0] * len(layout), 0
        widths = [dtype.itemsize for _, dtype, _ in layout]
        for i in sorted(range(len(layout)), key=lambda i: -widths[i]):
            offsets[i] = used
            used += layout[i][2].numel() * widths[i]
        if used > self.size:
            self.block = mmap.mmap(-1, used)
            if hasattr(mmap, "MADV_HUGEPAGE") and used >= 1 << 21:
                self.block.madvise(mmap.MADV_HUGEPAGE)
        self.used, self._offsets = used, offsets
        self.entries = [
            (name, word_of(dtype) or "", tuple(shape), at)
            for (name, dtype, shape), at in zip(layout, offsets, strict=True)
        ]
        self._layout = layout


@cache
def word_of(dtype: Any) -> str | None:
    """Return the name of a type in the file; None: it cannot be kept."""
    return WORDS.get(str(dtype).removeprefix("torch."))


def can_keep(tensor: Any) -> bool:
    """Return whether a tensor has plain memory: not sparse, fake, meta or not yet initialized."""
    import torch

    is_plain = tensor.layout == torch.strided and not tensor.is_meta
    return is_plain and not tensor.is_quantized and word_of(tensor.dtype) is not None
