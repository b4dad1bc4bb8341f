"""Make operators of the rows that the C class has noted.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tensortap.operators.operator import (
    MAKES_NODE,
    NATIVE,
    NO_NODE,
    RECOMPUTED,
    STEPS,
    Operand,
    Operator,
    Phase,
)
from tensortap.operators.origin import set_verdicts
from tensortap.private.tensors import schema_of

if TYPE_CHECKING:
    from tensortap.operators.mode import Mode


def read_rows(mode: Mode) -> list[Operator]:
    """Return the operators that a mode has noted, each with its verdict."""
    threads: dict[int, int] = {}
    makers: dict[int, int] = {}  # number of a node -> the operator that it was made for
    rows: list[Operator] = []
    for index in range(len(mode)):
        (
            operator, place, caller, module, node, sequence, variable, made, flags, start, end,
            thread, operands, results,
        ) = mode.read(index)  # fmt: skip
        name, overload = _name(mode.operators[operator])
        row = Operator(
            index=index,
            name=name,
            overload=overload,
            code=place[0] if place else None,
            number=place[1] if place else 0,
            caller=None,
            module=mode.names[module] if module >= 0 else None,
            phase=_phase(flags, node is not None),
            node=node.__name__ if node is not None else None,
            forward=-1,
            gradient_of=mode.parameters.get(variable) if variable else None,
            operands=[_tensor(mode, one) for one in operands],
            results=[_tensor(mode, one) for one in results],
            flags=flags,
            start=start,
            duration=max(end - start, 0),
            thread=threads.setdefault(thread, len(threads) + 1),
            made=made,
        )
        if place and caller and caller[0] is not place[0]:
            row.caller = os.path.basename(caller[0].co_filename), caller[1]
        if node is not None and flags & (NATIVE | RECOMPUTED) != RECOMPUTED:
            _link(row, _maker(sequence, row.node or "", makers, rows), rows)
        if flags & MAKES_NODE:
            makers[made] = index
        else:
            makers.setdefault(made, index)
        rows.append(row)
    set_verdicts(rows)
    return rows


def _tensor(mode: Mode, facts: tuple[Any, ...]) -> Operand:
    tensor = Operand(*facts)
    tensor.name = mode.parameters.get(tensor.storage)
    return tensor


def _phase(flags: int, is_backward: bool) -> Phase:
    if flags & RECOMPUTED:
        return "recomputed"
    return "backward" if is_backward else "optimizer" if flags & STEPS else "forward"


def _name(func: Any) -> tuple[str, str]:
    schema = schema_of(func)
    return (str(func), "") if schema is None else (schema.name, schema.overload_name)


def _maker(sequence: int, node: str, makers: dict[int, int], rows: list[Operator]) -> int:
    """Return the operator that a node of autograd was made for; -1 if it is not known."""
    if sequence == NO_NODE:
        return -1
    if sequence in makers:
        return makers[sequence]
    # An operator in place may first copy what it overwrites, which makes the next node.
    found = makers.get(sequence + 1, -1)
    for row in rows[found : found + 3] if found >= 0 else ():
        if node.lower().startswith(row.name.partition("::")[2].replace("_", "") + "backward"):
            return row.index
    return -1


def _link(row: Operator, forward: int, rows: list[Operator]) -> None:
    """Name an operator of backward by the line of the forward that autograd follows back."""
    row.forward = forward
    if forward < 0:
        return
    source = rows[forward]
    if row.module is None:
        row.module = source.module
    if row.flags & NATIVE or row.code is None:
        row.code, row.number, row.caller = source.code, source.number, source.caller
