/* cmd_rm.c -- tensortap rm RUN...
 * SPDX-License-Identifier: Apache-2.0 */
#include "remove.h"

static tt_removal how;

static tt_exit rm(tt_call *call)
{
    return tt_remove_runs((const char *const *)call->words, call->count, &how, call->err);
}

const tt_cmd tt_cmd_rm = {
    .name = "rm",
    .args = "RUN...",
    .summary = "remove runs; asks first",
    .doc = "Remove runs: their rank*.tap files, those of check --repair too, and the folder if nothing "
           "else is in it. A symbolic link to a run is refused: name the run itself.\v"
           "For example: tensortap rm runs/monday runs/tuesday",
    .options =
        (const tt_option[]){ { "yes", NULL, "Do not ask", .to = &how.is_sure },
                             { "json", NULL, "Print what was removed as JSON", .to = &how.is_json },
                             { 0 } },
    .least = 1,
    .most = SIZE_MAX,
    .missing = "name a run to remove",
    .run = rm,
};
