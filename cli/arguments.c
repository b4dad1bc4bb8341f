/* arguments.c -- what most commands are given: a run, often a pattern, perhaps --json.
 *
 * Exists so that all of them take it, and turn it down, in the same words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

error_t tt_given_parse(tt_given *given, int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case TT_GIVEN_JSON:
        given->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num >= given->most)
            argp_failure(state, TT_EXIT_USAGE, 0, "'%s' is one too many; %s", arg,
                         given->most == 1 ? "name one run" : "put the pattern in quotes");
        *(state->arg_num == 0 ? &given->run : &given->glob) = arg;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < given->least)
            argp_failure(state, TT_EXIT_USAGE, 0, "%s",
                         given->least == 1
                             ? "name a run; 'tensortap ls' lists them"
                             : "name a run and a site; 'tensortap show RUN' lists the sites");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}
