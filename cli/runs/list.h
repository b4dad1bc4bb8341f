/* list.h -- the runs in a folder.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_LIST_H
#define TT_CLI_LIST_H

#include "runs/overview.h"

/* What is shown of a run.  It is not kept open: a folder may hold more than a process may. */
typedef struct tt_runs_entry {
    char *path;     /* owned */
    tt_buf command; /* owned; may be empty */
    bool is_readable;
    tt_error error; /* why not */
    tt_totals totals;
    int64_t started; /* ns since 1970 */
    tt_state state;
    int32_t ranks;
    int64_t behind;    /* bytes that its copy in an object store lacks; -1: it has none */
    bool is_uploading; /* by a process of this machine */
} tt_runs_entry;

typedef struct tt_runs {
    tt_runs_entry *entries; /* owned; the latest first */
    size_t count, cap;
} tt_runs;

/* Searches a folder three levels deep; what holds a rank*.tap is a run. */
tt_status tt_runs_find(const char *folder, tt_runs *out, tt_error *err);
void tt_runs_free(tt_runs *runs);
/* Writes an object for each run into the list that is open.  skip: so many characters of each
 * path are left out. */
void tt_runs_json(tt_json *json, const tt_runs *runs, size_t skip);

#endif
