/* overview.h -- what the commands share about a run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_OVERVIEW_H
#define TT_CLI_OVERVIEW_H

#include "command.h"

/* Opens a run; on failure the message says what to do next. */
tt_exit tt_overview_open(const char *path, tt_run **out, tt_error *err);
/* How the numbers of a site were joined, and what was left out: "joined from 4 parts on 8 ranks; 2 steps are
 * incomplete (3 of 4 parts)"; NULL: the run is not joined, or one rank has it.  Valid until the next call. */
const char *tt_overview_joined(const tt_run *run, int32_t site);
/* All ranks as one, which the caller closes before `run`; NULL: they cannot be joined. */
tt_run *tt_overview_join(tt_run *run);
/* How many sites have points on ranks that could not be joined. */
int32_t tt_overview_left_out(const tt_run *run, const tt_run *joined, const char *glob);
/* Opens the file of one rank; if it is not there, an error that names those that are. */
tt_exit tt_overview_open_rank(const char *folder, const char *path, tt_run **out, tt_error *err);
/* No site matches: says so, and which name was probably meant. */
tt_exit tt_overview_no_site(const tt_run *run, const char *glob, tt_error *err);
bool tt_overview_has_site(const tt_run *run, const char *glob);

/* Shall reports leave out host, arguments, folder and commit?  TENSORTAP_PRIVATE */
bool tt_overview_is_private(void);

tt_run_file tt_overview_file(const tt_run *run, int32_t file);
int32_t tt_overview_rank_count(const tt_run *run);          /* a rank that forked has several files */
int32_t tt_overview_rank(const tt_run *run, int32_t file);  /* -1: the run has one rank */
int32_t tt_overview_whose(const tt_run *run, int32_t file); /* a rank; -1: numbers of the whole job */
/* "rank 0", "ranks 0, 1, 3", "ranks 0 to 7". */
const char *tt_overview_ranks(const tt_run *run); /* a text of the screen */

int64_t tt_overview_steps(const tt_totals *totals); /* from the first to the last, both */

/* Prints "runs/a   finished   steps 0 to 49   31 sites   1 550 points   95 kB", what became of the run,
 * and a line with the command that made it, if that is known.  Returns the number of lines. */
int tt_overview_print(const char *path, const tt_run *run);

#endif
