/* arguments.h -- what most commands are given: a run, often a pattern, perhaps --json.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_ARGUMENTS_H
#define TT_CLI_ARGUMENTS_H

#include "cmd.h"

#include <argp.h>

enum { TT_ARGUMENTS_JSON = 512 }; /* the key of --json; a command's own begin at 256 */

typedef struct tt_arguments {
    unsigned least, most; /* arguments that the command takes: 1 or 2 */
    const char *run, *glob;
    bool is_json;
} tt_arguments;

/* For the `default:` of a command's parser. */
error_t tt_arguments_parse(tt_arguments *shared, int key, char *arg, struct argp_state *state);

#endif
