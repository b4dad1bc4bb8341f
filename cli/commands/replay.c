/* replay.c -- tensortap replay RUN [options] [-- SCRIPT ARGUMENT...]
 *
 * Only the front: reads the options, so that help and mistakes need no Python; the rest is
 * tensortap.commands.replay.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *step;
    bool has_ops, has_no_ops, is_eager, is_sure;
} args;

/* Keeps the text: Python reads the number. */
static bool read_step(const char *text, void *out)
{
    int64_t step = 0;
    *(const char **)out = text;
    return tt_range_count(text, &step);
}

static tt_exit replay(tt_call *call)
{
    /* The arguments of tensortap.commands.replay, in this order; then the run, and the program if it
     * was named. */
    const char *head[] = { args.step,
                           args.has_ops      ? "1"
                           : args.has_no_ops ? "0"
                                             : NULL,
                           args.is_eager ? "1" : NULL, args.is_sure ? "1" : NULL,
                           call->is_json ? "1" : NULL };
    return tt_python_exec("replay", head, sizeof head / sizeof *head, call->words, call->err);
}

static const tt_option options[] = {
    { "step", "N", "The step to end with (the one that failed)", .to = &args.step, read_step,
      "a number of a step" },
    { "ops", NULL, "Find the operator that made the first NaN or Inf (the default after one)",
      .to = &args.has_ops },
    { "no-ops", NULL, "Do not look for operators", .to = &args.has_no_ops },
    { "eager", NULL, "Run without torch.compile", .to = &args.is_eager },
    { "yes", NULL, "Do not ask before the run's command runs", .to = &args.is_sure, .letter = 'y' },
};

const tt_cmd tt_cmd_replay = {
    TT_CMD("replay", "RUN", "run a step of a black box again"),
    .usage = "RUN [-- SCRIPT ARGUMENT...]\nRUN [-- -m MODULE ARGUMENT...]",
    .doc = "Run the program of a run again, up to the step that its black box was written for, with the "
           "state, "
           "batches and random numbers of then.\v"
           "The command comes from the run, and replay asks before it runs it.  It does not ask if you "
           "name the "
           "script yourself, behind --.\n\n"
           "Exit code: 0 reproduced to the bit, 4 within noise, 5 only when compiled, 1 not reproduced, "
           "3 not replayable.\n\n"
           "For example: tensortap replay runs/today",
    TT_OPTIONS(options),
    .json = TT_JSON,
    .least = 1,
    .most = SIZE_MAX,
    .missing = "name a run; 'tensortap ls' lists them",
    .run = replay,
};
