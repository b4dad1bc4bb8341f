/* blackbox.h -- the black boxes in a run's folder.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_BLACKBOX_H
#define TT_CLI_BLACKBOX_H

#include "output/screen.h"

typedef struct tt_blackboxes {
    size_t count; /* of steps */
    int64_t first_step;
    int64_t bytes;
} tt_blackboxes;

/* Counts those of a run, and removes them if asked to; nothing else in the folder is touched. */
void tt_blackbox_visit(const char *run, bool removes, tt_blackboxes *out);
/* Prints how to replay the first one; returns the number of lines, 0: there is none. */
int tt_blackbox_print(const char *run);

#endif
