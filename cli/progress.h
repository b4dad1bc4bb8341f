/* progress.h -- shows that the program is working, if it takes longer than a second.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_PROGRESS_H
#define TT_CLI_PROGRESS_H

#include <stdint.h>

typedef struct tt_progress tt_progress;

/* A moving mark on standard error, if that is a terminal; NULL: nothing is shown.
 * The words are ours. */
tt_progress *tt_progress_start(const char *words);
/* So much of it is done; from then on the bar grows and says how many percent. */
void tt_progress_tell(tt_progress *progress, int64_t done, int64_t total); /* NULL is fine */
void tt_progress_end(tt_progress *progress);                               /* NULL is fine */

#endif
