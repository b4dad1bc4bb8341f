/* cmd_help.c -- tensortap help [COMMAND]
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include <argp.h>
#include <stdio.h>

static error_t parse(int key, char *arg, struct argp_state *state)
{
    const char **name = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (state->arg_num > 0)
        argp_error(state, "one command at most");
    *name = arg;
    return 0;
}

static const struct argp spec = {
    .parser = parse,
    .args_doc = "[COMMAND]",
    .doc = "Print what tensortap can do, or how to use one of its commands.\v"
           "For example: tensortap help show",
};

tt_exit tt_cmd_help(int argc, char **argv, tt_error *err)
{
    const char *name = NULL;
    argp_parse(&spec, argc, argv, 0, NULL, &name);
    if (name == NULL) {
        tt_cmd_print_help();
        return TT_EXIT_FINE;
    }
    const tt_cmd *cmd = tt_cmd_find(name);
    if (cmd == NULL)
        return tt_cmd_unknown(name, err);
    char title[64], option[] = "--help";
    (void)snprintf(title, sizeof title, "tensortap %s", cmd->name);
    return cmd->run(2, (char *[]){ title, option, NULL }, err);
}
