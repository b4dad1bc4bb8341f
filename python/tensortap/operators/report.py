"""Write what a log found, for people.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensortap import _core
from tensortap.display.blocks import folded
from tensortap.models.modules import ROOT
from tensortap.operators.operator import IN_GRAPH, Operand, Operator
from tensortap.operators.origin import loss_of

if TYPE_CHECKING:
    from tensortap.operators.log import OperatorLog
    from tensortap.operators.origin import Origin

MOST_STEPS = 7  # of a path
MOST_OPERANDS = 4
LONGEST_SOURCE = 90


def origin_report(log: OperatorLog) -> str:
    """Return where the first bad value began, its operands, and where it went.

    Args:
        log: A log that has ended.

    Returns:
        Several lines, without a newline at the end.

    Example:
        >>> import torch, tensortap as tt
        >>> from tensortap.operators import origin_report
        >>> with tt.ops() as log:
        ...     _ = torch.zeros(2).log()
        >>> origin_report(log).startswith("first bad value: aten::log at ")
        True
    """
    origin = log.first_bad
    notes = [f"    note: {note}" for note in log.notes]
    if origin is None:
        return "\n".join([f"no bad value: none of {len(log)} operators left a NaN or Inf", *notes])
    lines = [_title(origin), f"    {_finding(origin)}"]
    if origin.kind == "created":
        sources = origin.operator.sources(origin.tensor)
        operands = [one for one in sources if one.stats is not None or one.is_unknown]
        lines += [f"    operand: {_operand_text(one, log)}" for one in operands[:MOST_OPERANDS]]
        if len(operands) > MOST_OPERANDS:
            lines.append(f"    and {len(operands) - MOST_OPERANDS} more operands")
        if not operands:
            lines.append("    it has no floating point operands")
    else:
        lines.append(f"    operand: {_operand_text(origin.tensor, log)}")
    steps = path_steps(log)
    if steps:
        lines.append(f"    then: {' → '.join(steps)}")
    if origin.removed:
        lines.append("    later operators removed it and all that came of it")
    return "\n".join(_core._escape(line) for line in [*lines, *notes])


def _title(origin: Origin) -> str:
    row = origin.operator
    source = row.source
    if len(source) > LONGEST_SOURCE:
        source = source[: LONGEST_SOURCE - 1] + "…"
    at = f"{row.line}   {source}".rstrip()
    if row.caller is not None:
        at += f"   (called at {row.caller[0]}:{row.caller[1]})"
    if origin.kind == "created":
        return f"first bad value: {row.name} at {at}"
    if origin.kind == "appeared" and origin.before is not None:
        before = f"{origin.before.name} at {origin.before.line}"
        return f"first bad value: appeared between {before} and {row.name} at {at}"
    return f"first bad value: read by {row.name} at {at}"


def _finding(origin: Origin) -> str:
    row, tensor = origin.operator, origin.tensor
    where = row.where
    if row.phase == "backward":
        where += f" (node {row.node})" if row.forward < 0 else f" of that line ({row.node})"
    if row.gradient_of is not None:
        where += f", gradient of {row.gradient_of}"
    found = bad_text(tensor, "results")
    if tensor.name is not None:
        found += f", of {tensor.name}"
    if origin.kind == "created":
        doubt = "" if origin.certain else "; not certain: an operand could not be read"
        if row.flags & IN_GRAPH:
            doubt = "; not certain: it is inside of a compiled graph, whose code is at that line"
        return f"{where}: {found}{doubt}"
    reason = {
        "given": "no operator wrote it: it came in like that"
        if origin.certain
        else "no operator that was seen left it there (a compiled graph may have)",
        "appeared": "no operator that was seen wrote it: a C extension, NumPy, a compiled graph "
        "or another thread may have",
        "unwritten": "some of its memory comes from torch.empty and was never written",
        "compiled": "it came out of a compiled graph, whose operators are not seen "
        "(tt.ops(eager=True), or replay --eager, runs it without the compiler)",
    }[origin.kind]
    return f"{where}: {bad_text(tensor, 'elements')}; {reason}"


def bad_text(tensor: Operand, what: str) -> str:
    """Return "14 of 512 results are NaN, in row 3"."""
    stats = tensor.stats
    if stats is None:
        return "unknown"
    counts = [("NaN", stats.nan), ("Inf", stats.posinf), ("-Inf", stats.neginf)]
    found = [f"{count} of {stats.count} {what} are {word}" for word, count in counts if count]
    shown = " and ".join(found)
    if stats.count == 1 and found:
        shown = f"the {what.removesuffix('s')} is {found[0].rpartition(' ')[2]}"
    shape = tensor.shape or ()
    if shape and 0 < tensor.bad_rows < shape[0]:
        first = ", ".join(map(str, tensor.first_rows))
        more = " …" if tensor.bad_rows > len(tensor.first_rows) else ""
        rows = "row" if tensor.bad_rows == 1 else "rows"
        shown += f", in {rows} {first}{more} of {shape[0]}"
    return shown or "all finite"


def _operand_text(one: Operand, log: OperatorLog) -> str:
    stats = one.stats
    text = one.kind
    if stats is not None:
        if stats.count > stats.nan + stats.posinf + stats.neginf:
            low, high = (f"{value:.3g}" for value in (stats.min, stats.max))
            text += f"  {low}" if low == high else f"  min {low} … max {high}"
        text += f", {bad_text(one, 'elements')}"
        if one.negative > 0:
            text += f"; negative in {_places(one.negative)}"
        if stats.zeros and not one.bad:
            text += f"; zero in {_places(stats.zeros)}"
    if one.name is not None:
        text += f"; {one.name}"
    writer = one.bad_writer if one.bad else one.writer
    if writer >= 0:
        row = log[writer]
        text += f"; from {row.name} at {row.line}"
        if row.intended:
            text += ", which was meant to be Inf"
    return text


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count} places"


def path_steps(log: OperatorLog) -> list[str]:
    """Return the way of the bad value: the next operator, then modules, the loss, gradients."""
    origin, rows = log.first_bad, log.path
    if origin is None or not rows:
        return []
    loss = loss_of(list(log))
    labels: list[str] = []
    kinds: list[tuple[str, ...]] = []  # layers are alike if the same lines run the same operators
    for row in [origin.operator, *(row for row in rows if row.phase != "optimizer")]:
        label = "loss" if row is loss else _block(_step(row))
        kind = (row.phase, row.name, row.line)
        if labels and labels[-1] == label:
            kinds[-1] += kind
        else:
            labels.append(label)
            kinds.append(kind)
    steps = [f"{rows[0].name} {rows[0].line}"]
    for i, (label, at) in enumerate(folded(labels, kinds)):
        if i == 0 and label == _step(origin.operator):  # it is named already
            continue
        if at == i and steps[-1] not in (label, f"{rows[0].name} {label}"):
            steps.append(label)
    if "loss" in steps:
        steps = steps[: steps.index("loss") + 1]
    if len(steps) > MOST_STEPS:
        steps = [*steps[: MOST_STEPS - 3], "…", *steps[-2:]]
    later = [row for row in log if row.index > origin.operator.index and row.verdict == "passed on"]
    gradients = len({row.gradient_of for row in later if row.gradient_of})
    if gradients:
        steps.append("1 gradient" if gradients == 1 else f"{gradients} gradients")
    if any(row.phase == "optimizer" for row in later) and origin.phase != "optimizer":
        steps.append("optimizer step")
    return steps


def _block(label: str) -> str:
    """Return the layer of a list that a module is part of: "h.3" for h.3.attn.proj."""
    parts = label.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdecimal()), len(parts))
    return ".".join(parts[: number + 1])


def _step(row: Operator) -> str:
    if row.name == "aten::_amp_foreach_non_finite_check_and_unscale_":
        return "GradScaler, which skips the step"
    place = row.line if not row.module else row.module
    return f"backward of {place}" if row.phase == "backward" else place


def table_text(rows: list[Operator]) -> str:
    """Return a table with one line for each operator."""
    cells = [("operator", "line", "module", "phase", "result", "")]
    for row in rows:
        result = next((one for one in row.results if one.stats is not None), None)
        numbers = ""
        if result is not None and result.stats is not None:
            stats = result.stats
            numbers = f"{result.kind}  {stats.min:.3g} … {stats.max:.3g}"
            numbers += f"  {bad_text(result, 'elements')}" if result.bad else ""
        elif row.results:
            numbers = row.results[0].kind
        place = "-" if row.module is None else row.module or ROOT
        verdict = "intended" if row.intended and row.verdict == "created" else row.verdict
        cells.append((row.name, row.line, place, row.phase, numbers, verdict))
    widths = [max(len(line[i]) for line in cells) for i in range(5)]
    return "\n".join(
        _core._escape(
            "  ".join(
                [*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[5]]
            ).rstrip()
        )
        for line in cells
    )
