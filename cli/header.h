/* header.h -- the first line about a run: what and how much it is.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_HEADER_H
#define TT_CLI_HEADER_H

#include "overview.h"
#include "screen.h"

/* "runs/a   finished   steps 0 to 49   31 sites   1 550 points   95 kB"; and a line
 * with the command it came from, if that is known.  Returns how many lines. */
int tt_header_print(const char *path, const tt_run *run, const tt_screen *screen);

/* The names of a mood's ink, for single words outside tables; "" without colour. */
const char *tt_header_ink(const tt_screen *screen, tt_mood mood);

/* The latest remark of the recorder about parameters that no optimizer updates; borrowed,
 * NULL: none. */
const char *tt_header_untrained(const tt_run *run);

#endif
