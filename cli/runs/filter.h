/* filter.h -- which runs of a list are shown, and in which order: --where and --sort.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_FILTER_H
#define TT_CLI_FILTER_H

#include "runs/list.h"

enum { TT_FILTERS_MOST = 16 };

/* What both name: columns of the list and keys of values. */
typedef struct tt_filter {
    struct {
        const char *key; /* in keys */
        int operation;
        const char *operand; /* in texts */
        double number;       /* NaN: the operand is none */
    } conditions[TT_FILTERS_MOST];
    size_t count;
    const char *sort; /* in keys; NULL: the latest first */
    bool is_descending;
    const char *keys[TT_FILTERS_MOST + 1]; /* those that no column has, each once: the wish */
    size_t key_count;
    bool needs_verdict;
    char *texts[TT_FILTERS_MOST + 1]; /* owned */
    size_t text_count;
} tt_filter;

void tt_filter_free(tt_filter *filter);
/* Adds "KEY OP VALUE"; false: it is none, or there are too many. */
bool tt_filter_where(tt_filter *filter, const char *text);
/* "KEY", or "-KEY": the largest first. */
bool tt_filter_sort(tt_filter *filter, const char *text);
/* Removes the runs that are not wanted, and sorts the rest.  *lacking: runs that were removed because they lack a
 * value.  Fails if no run has the value of a key, naming the nearest ones. */
tt_status tt_filter_apply(const tt_filter *filter, tt_runs *runs, size_t *lacking, tt_error *err);

#endif
