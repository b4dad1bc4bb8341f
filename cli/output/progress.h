/* progress.h -- shows that the program is working, if it takes longer than a second.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_PROGRESS_H
#define TT_CLI_PROGRESS_H

#include <stdint.h>

/* Starts a moving mark on standard error, if that is a terminal.  The words are ours. */
void tt_progress_start(const char *words);
/* So much of it is done; from then on the bar grows and shows how many percent. */
void tt_progress_tell(int64_t done, int64_t total);
void tt_progress_end(void); /* also if none was started */

#endif
