"""One operator that ran, and its tensors.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from types import CodeType
from typing import Any, Literal

from tensortap import _core

# As in python/ext/operators/log.h.
NATIVE, RECOMPUTED, MAKES_NODE, RAISED, INF_ARGUMENT, NAN_ARGUMENT, STEPS, IN_GRAPH = (
    1 << i for i in range(8)
)
WRITTEN, OVERWRITTEN, VIEW, UNWRITTEN, COMPILED = (1 << i for i in range(5))
NO_NODE = 2**64 - 1  # the number of nodes that accumulate gradients

ITEM_BY_ITEM = ("_foreach_", "_fused_", "_amp_foreach_")  # operators on lists

Phase = Literal["forward", "recomputed", "backward", "optimizer"]
Verdict = Literal["created", "passed on", "removed", ""]


@dataclass(slots=True, eq=False)
class Operand:
    """A tensor that an operator read or wrote, as it was then.

    Args:
        argument: Position among the arguments; -1 for keywords and results.
        item: Position in a list of tensors; -1 if it is not in a list.
        dtype: Element type, or None if the tensor could not be read.
        shape: Shape, or None.
        stats: Statistics of a floating point tensor, or None.
        name: Name, if it is a parameter or buffer of a model.
        unread: Why it could not be read ("sparse", "fake", ...); empty if it was.
        writer: Number of the operator that wrote its memory last; -1 if none was seen.
        bad_writer: Number of the last one that left NaN or Inf there; -1 if none was seen.
        seen: Number of the last one at which this memory was all finite; -1 if unknown.
        negative: Number of negative elements, where it was counted; else -1.
        bad_rows: Number of rows of the first dimension with NaN or Inf, where counted; else -1.
        first_rows: The first of these rows.
        flags, storage: For the analysis: whether it was written, and where its memory is.

    Example:
        >>> import torch, tensortap as tt
        >>> with tt.ops() as log:
        ...     y = torch.ones(2).exp()
        >>> log[1].results[0].kind
        'float32[2]'
    """

    argument: int
    item: int
    flags: int
    unread: str
    writer: int
    bad_writer: int
    seen: int
    storage: int
    dtype: str | None
    shape: tuple[int, ...] | None
    stats: _core.Stats | None
    negative: int = -1
    bad_rows: int = -1
    first_rows: tuple[int, ...] = ()
    name: str | None = None

    @property
    def bad(self) -> bool:
        """Whether it holds NaN or Inf."""
        stats = self.stats
        return stats is not None and stats.nan + stats.posinf + stats.neginf > 0

    @property
    def is_read(self) -> bool:
        """Whether the operator reads its elements."""
        return not self.flags & OVERWRITTEN

    @property
    def is_unknown(self) -> bool:
        """Whether it may hold NaN or Inf that we cannot see."""
        return self.stats is None and self.is_read and self.dtype is None

    @property
    def kind(self) -> str:
        """Element type and shape: "float32[8, 64]"."""
        if self.dtype is None or self.shape is None:
            return f"a tensor that cannot be read ({self.unread})"
        return f"{self.dtype}{list(self.shape) if self.shape else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""
        return {
            "argument": self.argument,
            "item": self.item,
            "dtype": self.dtype,
            "shape": None if self.shape is None else list(self.shape),
            "name": self.name,
            "unread": self.unread or None,
            "stats": None if self.stats is None else numbers_of(self.stats),
            "from": None if self.writer < 0 else self.writer,
            "rows": list(self.first_rows),
            "bad_rows": None if self.bad_rows < 0 else self.bad_rows,
            "negative": None if self.negative < 0 else self.negative,
        }


@dataclass(slots=True, eq=False)
class Operator:
    """An operator that ran.

    Args:
        index: Its number, from 0, in order of start.
        name: "aten::sqrt".
        overload: "Tensor", "out", ...; may be empty.
        code: Code object of the line that called it, or None.
        number: Number of that line. In backward, the line of the forward that autograd
            follows back.
        caller: (file, line) in the program itself, if *code* is part of an installed package.
        module: Path of the module it ran in: "" is the model itself, None is outside of any.
        phase: "forward", "recomputed" (by a checkpoint), "backward" or "optimizer".
        node: In backward, the name of autograd's node: "SqrtBackward0".
        forward: In backward, the number of the operator that the node belongs to; -1 if unknown.
        gradient_of: In backward, the name of the parameter that it accumulates a gradient for.
        operands: Tensors that it got.
        results: Tensors that it returned or wrote.
        verdict: Whether a bad value was "created", "passed on" or "removed"; else empty.
        intended: Whether the Infs in its results were asked for, as in a mask.
        start, duration: In ns, as from `time.perf_counter_ns()`.
        thread: Number of the thread.
        flags, made: For the analysis: how it was called, and the newest node of autograd.

    Example:
        >>> import torch, tensortap as tt
        >>> with tt.ops() as log:
        ...     y = torch.ones(2).exp()
        >>> log[1].name, log[1].phase, log[1].module
        ('aten::exp', 'forward', None)
    """

    index: int
    name: str
    overload: str
    code: CodeType | None
    number: int
    caller: tuple[str, int] | None
    module: str | None
    phase: Phase
    node: str | None
    forward: int
    gradient_of: str | None
    operands: list[Operand]
    results: list[Operand]
    flags: int
    start: int
    duration: int
    thread: int
    made: int
    verdict: Verdict = ""
    intended: bool = False

    @property
    def file(self) -> str | None:
        """File of the line."""
        return None if self.code is None else self.code.co_filename

    @property
    def line(self) -> str:
        """The line as "model.py:112"; "an unknown line" if there is none."""
        if self.code is None:
            return "an unknown line"
        return f"{os.path.basename(self.code.co_filename)}:{self.number}"

    @property
    def source(self) -> str:
        """Text of the line."""
        if self.code is None:
            return ""
        return linecache.getline(self.code.co_filename, self.number).strip()

    @property
    def where(self) -> str:
        """The module and the phase, as a sentence has them."""
        place = (
            "outside of any module" if self.module is None else f"in {self.module or 'the model'}"
        )
        words = {
            "optimizer": "optimizer step",
            "recomputed": "forward computed again by a checkpoint",
        }
        return f"{place}, {words.get(self.phase, self.phase)}"

    def sources(self, result: Operand) -> list[Operand]:
        """Return the operands that a result comes from: of lists the same items."""
        name = self.name.partition("::")[2]
        is_each = result.item >= 0 and name.startswith(ITEM_BY_ITEM)
        items = (-1, result.item)
        return [one for one in self.operands if one.is_read and (not is_each or one.item in items)]

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""
        return {
            "index": self.index,
            "operator": self.name,
            "overload": self.overload,
            "file": self.file,
            "line": None if self.code is None else self.number,
            "source": self.source,
            "caller": None if self.caller is None else list(self.caller),
            "module": self.module,
            "phase": self.phase,
            "node": self.node,
            "forward": None if self.forward < 0 else self.forward,
            "gradient_of": self.gradient_of,
            "verdict": self.verdict,
            "operands": [one.to_dict() for one in self.operands],
            "results": [one.to_dict() for one in self.results],
        }


def numbers_of(stats: _core.Stats) -> dict[str, Any]:
    """Return the statistics as JSON has them: NaN and Inf, which it has not, as None."""
    names = ("count", "nan", "posinf", "neginf", "zeros", "min", "max", "mean", "std", "absmax")
    values = {name: getattr(stats, name) for name in names}
    return {
        name: value
        if isinstance(value, int) or (isinstance(value, float) and abs(value) <= 1.8e308)
        else None
        for name, value in values.items()
    }
