/* cmd_rm.c -- tensortap rm RUN...
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"
#include "remove.h"

#include <argp.h>

enum { YES = 256, JSON };

typedef struct arguments {
    const char *const *runs; /* borrowed of argv */
    size_t count;
    tt_removal how;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    (void)arg;
    switch (key) {
    case YES:
        args->how.is_sure = true;
        return 0;
    case JSON:
        args->how.is_json = true;
        return 0;
    case ARGP_KEY_ARGS:
        args->runs = (const char *const *)(state->argv + state->next);
        args->count = (size_t)(state->argc - state->next);
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_failure(state, TT_EXIT_USAGE, 0, "name a run to remove");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    { "yes", YES, NULL, 0, "Do not ask", 0 },
    { "json", JSON, NULL, 0, "Print what was removed as JSON", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN...",
    .doc = "Remove runs: their rank*.tap files, those of check --repair too, and the folder if nothing "
           "else is in it. A symbolic link to a run is refused: name the run itself.\v"
           "For example: tensortap rm runs/monday runs/tuesday",
};

tt_exit tt_cmd_rm(int argc, char **argv, tt_error *err)
{
    arguments args = { 0 };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    return tt_remove_runs(args.runs, args.count, &args.how, err);
}
