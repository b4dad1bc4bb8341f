"""Find the operator at which the first bad value began, and the way that it took.

A bad value is NaN or Inf.  Facts come from the log: which operands were bad before an operator ran,
who had written them, which results were bad afterwards.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from tensortap import _core
from tensortap.operators.operator import (
    COMPILED,
    IN_GRAPH,
    INF_ARGUMENT,
    NAN_ARGUMENT,
    UNWRITTEN,
    VIEW,
    WRITTEN,
    Operand,
    Operator,
)

Kind = Literal["created", "given", "appeared", "unwritten", "compiled"]

MOST_TRIED = 200  # origins whose consequences are followed


@dataclass(frozen=True, repr=False)
class Origin:
    """Where the first bad value began.

    Args:
        kind: "created": the operator made it of good operands. "given": it was there before the
            first operator read it, for example in a batch. "appeared": no operator wrote it, but
            the memory was good before. "unwritten": memory of `torch.empty` was read.
            "compiled": it came out of a compiled graph.
        operator: The operator that created the value, or the first one that read it.
        tensor: The bad result, or the bad operand.
        certain: Whether nothing else can have been the origin.
        before: For "appeared", the last operator that saw the memory all finite.
        removed: Whether later operators removed the value and all that came of it.

    Example:
        >>> import torch, tensortap as tt
        >>> with tt.ops() as log:
        ...     y = torch.zeros(2).log()
        >>> log.first_bad.kind, log.first_bad.operator.name, log.first_bad.certain
        ('created', 'aten::log', True)
    """

    kind: Kind
    operator: Operator
    tensor: Operand
    certain: bool
    before: Operator | None = None
    removed: bool = False

    def __repr__(self) -> str:
        """Return it as one line."""
        module = f", in {self.module}" if self.module else ""
        doubt = "" if self.certain else ", not certain"
        return f"<{self.kind} by {self.operator.name} at {self.line}{module}, {self.phase}{doubt}>"

    @property
    def line(self) -> str:
        """The line: "model.py:112"."""
        return self.operator.line

    @property
    def module(self) -> str | None:
        """Path of the module."""
        return self.operator.module

    @property
    def phase(self) -> str:
        """The phase: "forward", "recomputed", "backward" or "optimizer"."""
        return self.operator.phase

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""
        return {
            "kind": self.kind,
            "certain": self.certain,
            "removed": self.removed,
            "tensor": self.tensor.to_dict(),
            "before": None if self.before is None else self.before.to_dict(),
            **self.operator.to_dict(),
        }


def set_verdicts(rows: list[Operator]) -> None:
    """Set the verdict of each operator, and which Infs were intended."""
    for row in rows:
        bad = [one for one in row.operands if one.bad and one.is_read]
        results = [one for one in row.results if one.stats is not None]
        if any(one.bad for one in results):
            is_new = any(one.bad and not _bad_sources(row, one) for one in results)
            row.verdict = "created" if is_new else "passed on"
            row.intended = _is_intended(row, rows, bad)
        elif bad and (results or row.name == "aten::_to_copy") and not _is_blind(row):
            row.verdict = "removed"


def _is_blind(row: Operator) -> bool:
    """Return whether an operator reads no element of its operands."""
    return row.name.endswith("_like") or is_view(row)


def _bad_sources(row: Operator, result: Operand) -> list[Operand]:
    return [one for one in row.sources(result) if one.bad]


def _is_intended(row: Operator, rows: list[Operator], bad: list[Operand]) -> bool:
    """Return whether the results hold Inf that somebody wrote there: a mask, a limit."""
    if any(one.stats is not None and one.stats.nan > 0 for one in row.results):
        return False
    if not bad:
        return bool(row.flags & INF_ARGUMENT) and not row.flags & NAN_ARGUMENT
    return all(_is_mask(one, rows) for one in bad)


def _is_mask(operand: Operand, rows: list[Operator]) -> bool:
    """Return whether an operand with Inf is intended: made so, or from outside.

    From outside it is what `tensortap nan` calls a mask.
    """
    if operand.bad_writer >= 0:
        return rows[operand.bad_writer].intended
    stats = operand.stats
    if stats is None:
        return False
    return _core._value_is_masked("input/", None, stats.nan, stats.posinf, stats.neginf)


def origins(rows: list[Operator], has_graphs: bool) -> Iterator[Origin]:
    """Yield every place where a bad value began, in order of time.

    *has_graphs*: a compiled graph, which is not seen, may have made what no operator wrote.
    """
    known: set[int] = set()  # storages whose bad value has been named
    for row in rows:
        if is_view(row):  # it reads no element
            continue
        for operand in row.operands:
            if (
                operand.bad
                and operand.is_read
                and operand.bad_writer < 0
                and operand.storage not in known
            ):
                known.add(operand.storage)
                if not _is_mask(operand, rows):
                    yield _from_outside(row, operand, rows, has_graphs)
        created = None if row.intended else _created(row, rows)
        if created is not None:
            is_sure = not row.flags & IN_GRAPH and not any(one.is_unknown for one in row.operands)
            yield Origin("created", row, created, certain=is_sure)


def is_view(row: Operator) -> bool:
    """Return whether an operator only looks at memory in another way."""
    return bool(row.results) and all(one.flags & VIEW for one in row.results)


def _from_outside(
    row: Operator, operand: Operand, rows: list[Operator], has_graphs: bool
) -> Origin:
    written = next((one for one in row.results if one.bad and one.flags & WRITTEN), None)
    if written is not None and operand.stats is not None and operand.stats.count == 1:
        return Origin("created", row, written, certain=True)  # x[i] = nan: a number of the program
    if operand.flags & COMPILED or row.flags & IN_GRAPH:
        return Origin("compiled", row, operand, certain=False)
    if operand.flags & UNWRITTEN:
        before = rows[operand.writer] if operand.writer >= 0 else None
        return Origin("unwritten", row, operand, certain=False, before=before)
    if operand.seen >= 0:
        return Origin("appeared", row, operand, certain=False, before=rows[operand.seen])
    return Origin("given", row, operand, certain=operand.writer < 0 and not has_graphs)


def _created(row: Operator, rows: list[Operator]) -> Operand | None:
    """Return the first result that the operator made bad; of Infs that were intended, a NaN."""
    for result in row.results:
        if not result.bad or result.flags & VIEW:
            continue
        sources = _bad_sources(row, result)
        is_masked = all(_is_mask(one, rows) for one in sources)
        if not sources or (is_masked and result.stats is not None and result.stats.nan > 0):
            return result
    return None


def path_of(origin: Origin, rows: list[Operator]) -> tuple[list[Operator], bool]:
    """Return the operators that a bad value reached, and whether all of it was removed again."""
    is_created = origin.kind == "created"
    source = origin.operator.index if is_created else -1  # -1: no operator wrote it
    reached = {source: origin.operator}
    passed: set[int] = set()
    removed: set[int] = set()
    for row in rows[origin.operator.index + is_created :]:
        came = {
            one.bad_writer
            for one in row.operands
            if one.bad
            and one.is_read
            and one.bad_writer in reached
            and (one.bad_writer >= 0 or one.storage == origin.tensor.storage)
        }
        if not came or is_view(row):
            continue
        if row.verdict == "removed":
            removed |= came
        elif row.verdict:
            passed |= came
            reached[row.index] = row
    path = [row for row in reached.values() if row is not origin.operator]
    return path, reached.keys() <= passed | removed


def loss_of(rows: list[Operator]) -> Operator | None:
    """Return the operator whose bad result backward() was called on first."""
    for row in rows:
        if row.name == "aten::ones_like" and row.operands and row.operands[0].bad_writer >= 0:
            return rows[row.operands[0].bad_writer]
    return None


def first_bad(rows: list[Operator], *, has_graphs: bool = False) -> Origin | None:
    """Return the first origin whose value reached the loss, a gradient or a parameter.

    If there is none, the first whose value was not removed; then the first that made NaN.
    """
    loss, rest, removed = loss_of(rows), None, None
    for origin in islice(origins(rows, has_graphs), MOST_TRIED):
        path, is_removed = path_of(origin, rows)
        touched = [origin.operator, *path]
        if is_removed:
            if removed is None and any(_has_nan(row) for row in touched):
                removed = replace(origin, removed=True)
        elif any(row is loss or row.phase in ("backward", "optimizer") for row in touched):
            return origin
        else:
            rest = rest or origin
    return rest or removed


def _has_nan(row: Operator) -> bool:
    tensors = (*row.operands, *row.results)
    return any(one.stats is not None and one.stats.nan > 0 for one in tensors)
