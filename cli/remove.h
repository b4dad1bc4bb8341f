/* remove.h -- removes runs, and nothing else.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_REMOVE_H
#define TT_CLI_REMOVE_H

#include "cmd.h"

bool tt_remove_is_tap(const char *name); /* rank0.tap and the like */
/* Lists them, asks on a terminal (refuses elsewhere) unless sure, removes. */
tt_exit tt_remove_runs(const char *const *paths, size_t count, bool is_sure, tt_error *err);

#endif
