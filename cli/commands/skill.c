/* skill.c -- tensortap skill
 *
 * Only the front: the text is in the Python package; tensortap.commands.skill prints it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

const tt_cmd tt_cmd_skill = {
    TT_CMD("skill", "", "how to find a cause, for a program that reads answers"),
    .doc = "Print a page of recipes (SKILL.md) for programs that use tensortap on somebody's behalf: "
           "NaN, spikes, "
           "two runs that differ, many ranks, a port.\v"
           "For example: tensortap skill > skills/tensortap/SKILL.md",
    .extra = "it takes no words",
    .run = tt_python_run,
};
