/* arguments.c -- what most commands are given: a run, often a pattern, perhaps --json.
 *
 * Exists so that all of them take it, and turn it down, in the same words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

error_t tt_arguments_parse(tt_arguments *shared, int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case TT_ARGUMENTS_JSON:
        shared->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num >= shared->most)
            argp_failure(state, TT_EXIT_USAGE, 0, "'%s' is one too many; %s", arg,
                         shared->most == 1 ? "name one run" : "put the pattern in quotes");
        *(state->arg_num == 0 ? &shared->run : &shared->glob) = arg;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < shared->least)
            argp_failure(state, TT_EXIT_USAGE, 0, "%s",
                         shared->least == 1
                             ? "name a run; 'tensortap ls' lists them"
                             : "name a run and a site; 'tensortap show RUN' lists the sites");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}
