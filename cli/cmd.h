/* cmd.h -- what a command of the `tensortap` program is.
 *
 * A command is one file, cmd_<name>.c, and one row in the table in main.c.  It
 * prints its answer to standard output and returns an exit code; what went
 * wrong it writes into err, which main prints.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_CMD_H
#define TT_CLI_CMD_H

#include "tensortap_tools.h"

typedef enum tt_exit {
    TT_EXIT_FINE = 0,
    TT_EXIT_FOUND = 1,  /* the thing asked about is there, or differs */
    TT_EXIT_USAGE = 2,  /* wrong arguments, or a name that matches nothing */
    TT_EXIT_FAILED = 3, /* could not be done */
} tt_exit;

/* argv[0] is "tensortap NAME". */
typedef tt_exit tt_cmd_fn(int argc, char **argv, tt_error *err);

typedef struct tt_cmd {
    const char *name;
    const char *args;    /* "RUN [GLOB]"; "": none */
    const char *summary; /* one line */
    tt_cmd_fn *run;
} tt_cmd;

extern const tt_cmd tt_commands[]; /* ended by a row without a name */

tt_cmd_fn tt_cmd_check;
tt_cmd_fn tt_cmd_diff;
tt_cmd_fn tt_cmd_export;
tt_cmd_fn tt_cmd_graph;
tt_cmd_fn tt_cmd_help;
tt_cmd_fn tt_cmd_ls;
tt_cmd_fn tt_cmd_nan;
tt_cmd_fn tt_cmd_rm;
tt_cmd_fn tt_cmd_run;
tt_cmd_fn tt_cmd_show;
tt_cmd_fn tt_cmd_stats;
tt_cmd_fn tt_cmd_top;

const tt_cmd *tt_cmd_find(const char *name); /* NULL: none */
/* Writes "no command 'sohw'; did you mean 'show'?" and returns the exit code. */
tt_exit tt_cmd_unknown(const char *name, tt_error *err);
void tt_cmd_print_help(void); /* of the program, to standard output */

#endif
