"""What became of a replay: an answer, and its lines.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import shlex
from typing import Any

from tensortap.answers.finding import Finding, Severity

Result = dict[str, Any]
TWO_MINUTES = 120.0  # seconds

#: What a verdict is called, and the exit code of the command.
VERDICTS = {
    "bits": ("reproduced to the bit", 0),
    "noise": ("reproduced within noise", 4),
    "compiled": ("reproduced only when compiled", 5),
    "unreproduced": ("not reproduced", 1),
    "transient": ("not reproduced, so the fault was transient (hardware or a race)", 1),
    "unplayable": ("not replayable", 3),
}


#: How grave a verdict is: the fault is there, it may come again, nothing is known.
SEVERITIES: dict[str, Severity] = {
    **dict.fromkeys(("bits", "noise", "compiled"), "error"),
    **dict.fromkeys(("unreproduced", "transient"), "warning"),
    "unplayable": "note",
}


def conclude(result: Result, run: str) -> Finding:
    """Return what became of a replay of *run* as an answer."""
    sentence, *detail = _describe(result)
    has_more = result["verdict"] == "unreproduced" and not result.get("from_start")
    step = result.get("step", -1)
    return Finding(
        rule=str(result.get("cause", result["verdict"])),
        severity=SEVERITIES[result["verdict"]],
        sentence=sentence,
        kind="fault",
        first_step=step,
        last_step=step,
        rank=result.get("rank", -1),
        ranks=(result["rank"],) if result.get("rank", -1) >= 0 else (),
        detail=tuple(detail),
        next=(f"tensortap replay --from-start {shlex.quote(run)}",) if has_more else (),
    )


def _describe(result: Result) -> list[str]:
    """Return the lines that a person reads about a replay."""
    words = VERDICTS[result["verdict"]][0]
    if result["verdict"] == "unplayable":
        lines = [f"{words}: {result['reason']}"]
    else:
        digests = (
            f" ({result['equal']} of {result['total']} digests)" if result.get("total") else ""
        )
        start = ", from the program's first step on" if result.get("from_start") else ""
        lines = [f"step {result['step']} {words}{start}{digests}"]
    is_absent = result["verdict"] in ("unreproduced", "transient")
    if (is_absent or result["verdict"] == "noise") and result["first_difference"]:
        step, name = result["first_difference"]
        lines.append(f"the first difference is at step {step}: {name.partition('#')[0]}")
    if is_absent or result.get("from_start"):
        lines += [_describe_change(one, is_absent) for one in result.get("changed_variables", [])]
    lines += _explain_absence(result) if is_absent else []
    if result.get("eager") in ("bits", "noise"):
        lines.append("it is there without torch.compile, too")
    if result.get("replaced_inputs"):
        count = result["replaced_inputs"]
        lines.append(f"{count} inputs of the model were not the kept ones, which were used instead")
    if result.get("changed"):
        lines.append(f"{result['changed']} has changed since the run")
    lines += [f"not finite: {row}" for row in result.get("rows", [])]
    if result.get("report"):
        lines += result["report"].splitlines()
    return lines


def _describe_change(one: dict[str, Any], is_absent: bool) -> str:
    """Return the line about a variable that was another when the snapshot was replayed."""
    where = f"{one['file'].rpartition('/')[2]}:{one['line']}"
    if is_absent:
        said = f"'{one['name']}' was {one['was']!r} then and is {one['is']!r} now ({where})"
    else:
        said = (
            f"it did not come again from the snapshot, where '{one['name']}' was {one['is']!r}"
            f" instead of {one['was']!r} ({where})"
        )
    return f"{said}: the fault may depend on it"


def _explain_absence(result: Result) -> list[str]:
    """Return the lines that say why a fault may not have come again."""
    if result["verdict"] == "transient":
        return ["everything before it was computed again, equal to the bit"]
    if result.get("from_start"):
        return ["the program does not compute the same twice, or its data have changed"]
    lines = ["it may depend on what is not kept: a global, or an attribute of an object of its own"]
    if result.get("changed_variables"):
        lines = []
    took = result.get("seconds")
    time = f", about {took / 60:.0f} min" if took is not None and took > TWO_MINUTES else ""
    return [*lines, f"to run the program from its first step{time}: tensortap replay --from-start"]
