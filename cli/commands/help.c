/* help.c -- tensortap help [COMMAND]
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

static tt_exit help(tt_call *call)
{
    char name[] = "tensortap", option[] = "--help";
    if (call->count > 0)
        return tt_cmd_call(call->path, 2, (char *[]){ name, option, NULL }, call->err);
    tt_cmd_print_help();
    return TT_EXIT_FINE;
}

const tt_cmd tt_cmd_help = {
    TT_CMD("help", "[COMMAND]", "print this help, or that of a command"),
    .doc = "Print what tensortap can do, or how to use one of its commands.\v"
           "For example: tensortap help show",
    .most = 1,
    .extra = "name one command",
    .run = help,
};
