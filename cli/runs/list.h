/* list.h -- the runs in a folder.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_LIST_H
#define TT_CLI_LIST_H

#include "runs/overview.h"
#include "runs/value.h"

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
    tt_runs_value usual[TT_RUNS_USUAL_COUNT_]; /* owned */
    int64_t stride;                            /* of the steps that a thinned run has; 1: all */
    tt_runs_value *values;                     /* owned; as the wish says */
    size_t value_count, value_cap;
    char *verdict; /* owned: "2 errors, 1 warning"; NULL: the run was not looked at */
    size_t errors, warnings;
} tt_runs_entry;

typedef struct tt_runs {
    tt_runs_entry *entries; /* owned; the latest first */
    size_t count, cap;
} tt_runs;

/* Which values are read of each run besides the usual ones. */
typedef struct tt_runs_wish {
    const char *const *keys; /* value i is that of key i ... */
    size_t key_count;
    bool wants_all; /* ... or all that the run has */
} tt_runs_wish;

/* Searches a folder three levels deep; what holds a rank*.tap is a run.  wish: NULL: the usual values alone. */
tt_status tt_runs_find(const char *folder, const tt_runs_wish *wish, tt_runs *out, tt_error *err);
void tt_runs_free(tt_runs *runs);
void tt_runs_entry_free(tt_runs_entry *entry);
/* Looks for what is wrong with the runs, one after the other, until so many bytes were read: each point of a run is
 * read for it. */
tt_status tt_runs_judge(tt_runs *runs, int64_t bytes);
/* Writes an object for each run into the list that is open.  skip: so many characters of each
 * path are left out. */
void tt_runs_json(tt_json *json, const tt_runs *runs, size_t skip);

#endif
