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

#endif
