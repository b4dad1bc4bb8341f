/* arguments.h -- the options and words of a command, and its help, from its row.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_ARGUMENTS_H
#define TT_CLI_ARGUMENTS_H

#include "command.h"

#include <stdio.h>

/* Parses the arguments behind argv[0] into the variables of call->cmd and into call.  Prints the
 * help and exits if that is asked for; refuses what does not fit. */
void tt_arguments_parse(tt_call *call, int argc, char **argv);
void tt_arguments_help(const tt_cmd *cmd, FILE *out);

#endif
