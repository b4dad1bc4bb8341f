/* anomalies.h -- the sites with which something is wrong: NaN, all zero, exploding, unchanged.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_ANOMALIES_H
#define TT_CLI_ANOMALIES_H

#include "tensortap_tools.h"

/* Prints the sites of the tree that are odd, unless all are wanted no more than a third
 * of the screen; path is how the user called the run; *lines is how many lines that took. */
tt_status tt_anomalies_print(const char *path, tt_run *run, const tt_run_tree *tree, const tt_look *look,
                             bool shows_all, int *lines, tt_error *err);

#endif
