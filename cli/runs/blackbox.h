/* blackbox.h -- says that a run has a black box.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_BLACKBOX_H
#define TT_CLI_BLACKBOX_H

/* Prints how to replay the first one; returns the number of lines, 0: there is none. */
int tt_blackbox_print(const char *run);

#endif
