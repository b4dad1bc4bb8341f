"""What became of a replay, for people.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

Result = dict[str, Any]

#: What a verdict is called, and the exit code of the command.
VERDICTS = {
    "bits": ("reproduced to the bit", 0),
    "noise": ("reproduced within noise", 4),
    "compiled": ("reproduced only when compiled", 5),
    "transient": ("not reproduced, so the fault was transient (hardware or a race)", 1),
    "unplayable": ("not replayable", 3),
}


def describe(result: Result) -> list[str]:
    """Return the lines that a person reads about a replay."""
    words = VERDICTS[result["verdict"]][0]
    if result["verdict"] == "unplayable":
        lines = [f"{words}: {result['reason']}"]
    else:
        digests = (
            f" ({result['equal']} of {result['total']} digests)" if result.get("total") else ""
        )
        lines = [f"step {result['step']} {words}{digests}"]
    if result["verdict"] in ("noise", "transient") and result["first_difference"]:
        step, name = result["first_difference"]
        lines.append(f"the first difference is at step {step}: {name.partition('#')[0]}")
    if result["verdict"] == "transient":
        lines.append("or it depends on what is not kept: a counter of steps in the program, say")
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
