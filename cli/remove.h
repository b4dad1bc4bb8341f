/* remove.h -- removes runs, and nothing else.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_REMOVE_H
#define TT_CLI_REMOVE_H

#include "cmd.h"

typedef struct tt_removal {
    bool is_sure; /* do not ask */
    bool is_json; /* say what was removed as JSON */
} tt_removal;

bool tt_remove_is_tap(const char *name); /* rank0.tap and the like */
/* Lists them, asks on a terminal (refuses elsewhere) unless sure, removes. */
tt_exit tt_remove_runs(const char *const *paths, size_t count, const tt_removal *how, tt_error *err);

#endif
