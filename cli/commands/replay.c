/* replay.c -- tensortap replay RUN [options] [-- SCRIPT ARGUMENT...]
 *
 * Only the front: reads the options, so that help and mistakes need no Python; the rest is
 * tensortap.commands.replay.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "words.h"

static const tt_option options[] = {
    { "step", "N", "The step to end with (the one that failed)", .read = tt_range_count,
      .takes = "a number of a step" },
    { .name = "ops", NULL, "Find the operator that made the first NaN or Inf (the default after one)" },
    { .name = "no-ops", NULL, "Do not look for operators" },
    { .name = "eager", NULL, "Run without torch.compile" },
    { .name = "from-start",
      NULL,
      "Run the program from its first step, and compare on the way (done by itself if that takes less "
      "than "
      "a minute and the step was not reproduced)" },
    { "yes", NULL, "Do not ask before the run's command runs", .letter = 'y' },
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
    .run = tt_python_run,
};
