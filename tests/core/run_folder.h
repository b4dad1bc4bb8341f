/* run_folder.h -- a fresh folder for each test, and events that can be told apart.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_TEST_RUN_FOLDER_H
#define TT_TEST_RUN_FOLDER_H

#include "tensortap.h"

/* A new name under $TMPDIR or /tmp for a run; the folder itself is not made. */
const char *run_folder_new(void);
/* Removes the run of run_folder_new and its folder. */
void run_folder_remove(const char *folder);
/* Statistics that only this (site, step) has. */
tt_stats stats_of(int32_t site, int64_t step);

/* Each of these fails the test with the error's text. */
tt_recorder *begin_run(const char *folder, const tt_recorder_options *options);
void finish_run(tt_recorder *rec);
tt_run *read_run(const char *folder);
int32_t site_of(tt_recorder *rec, const char *name);
void assert_whole(tt_run *run);                                /* no damage in any file */
tt_run *finish_and_read(tt_recorder *rec, const char *folder); /* and it is whole */

#endif
