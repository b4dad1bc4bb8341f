/* bits.c -- parameters of two runs that are equal in every bit, or are not.
 *
 * Exists because statistics are equal for tensors that are not.  Digests that survive resharding (keep="placed") can
 * be compared between one process and any number of ranks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/diff.h"

#include "base/buf.h"
#include "store/run.h"

#include <stdlib.h>

typedef struct digest_at {
    int64_t step, call;
    uint64_t low, high;
    int64_t count, dtype;
} digest_at;

typedef struct digests {
    digest_at *all; /* owned */
    size_t count, cap;
} digests;

/* Reads the digests of a site, in the order of the file; few sites have any. */
static tt_status read_digests(tt_run *run, int32_t file, int32_t site, const tt_step_map *map,
                              digests *out)
{
    enum { PRODUCTS, STEP, CALL, LOW, HIGH, COUNT, DTYPE, COLUMNS };
    static const tt_column columns[] = { TT_COLUMN_PRODUCTS,  TT_COLUMN_STEP,      TT_COLUMN_CALL,
                                         TT_COLUMN_PLACED_LO, TT_COLUMN_PLACED_HI, TT_COLUMN_COUNT,
                                         TT_COLUMN_DTYPE };
    const uint64_t *cells[COLUMNS];
    const tt_index_site *row = file >= 0 && site >= 0 ? tt_run_row(run, file, site) : NULL;
    tt_status st = TT_OK;
    for (uint32_t k = 0; row != NULL && st == TT_OK && k < row->count; k++) {
        st = tt_run_columns(run, run->taps[file], row, &row->chunks[k], columns, COLUMNS, cells);
        for (uint32_t i = 0; st == TT_OK && i < row->chunks[k].n; i++) {
            if (!(cells[PRODUCTS][i] & TT_PRODUCT_PLACED))
                continue;
            st = tt_grow(&out->all, &out->cap, out->count + 1, sizeof *out->all);
            int64_t step = (int64_t)cells[STEP][i];
            if (st == TT_OK)
                out->all[out->count++] = (digest_at){ .step = tt_step_map_of(map, step),
                                                      .call = (int64_t)cells[CALL][i],
                                                      .low = cells[LOW][i],
                                                      .high = cells[HIGH][i],
                                                      .count = (int64_t)cells[COUNT][i],
                                                      .dtype = (int64_t)cells[DTYPE][i] };
        }
    }
    return st;
}

static int by_step(const digest_at *x, const digest_at *y)
{
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (x->call > y->call) - (x->call < y->call);
}

/* Compares those of the same step and call. */
static void compare(const digests *a, const digests *b, const tt_diff_options *options,
                    tt_diff_site *site)
{
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const digest_at *x = &a->all[i], *y = &b->all[j];
        int order = by_step(x, y);
        if (order == 0 && x->step >= options->first_step && x->step <= options->last_step) {
            bool is_same =
                x->low == y->low && x->high == y->high && x->count == y->count && x->dtype == y->dtype;
            site->bits++;
            if (!is_same && site->other_bits < 0)
                site->other_bits = x->step;
        }
        i += order <= 0;
        j += order >= 0;
    }
}

/* Is there one at all? */
static bool has_any(tt_run *run, int32_t file, int32_t site)
{
    tt_point p;
    return file >= 0 && site >= 0 && tt_run_points(run, file, site) > 0 &&
           tt_run_point(run, file, site, 0, &p, NULL) == TT_OK && (p.products & TT_PRODUCT_PLACED) != 0;
}

tt_status tt_bits_compare(const tt_side *a, const tt_side *b, const tt_diff_options *options,
                          tt_diff_site *site)
{
    digests x = { 0 }, y = { 0 };
    tt_status st = TT_OK;
    site->other_bits = -1;
    if (!tt_name_begins(site->name, "parameter/") || !has_any(a->run, a->file, a->site) ||
        !has_any(b->run, b->file, b->site))
        return st;
    st = read_digests(a->run, a->file, a->site, a->map, &x);
    if (st == TT_OK)
        st = read_digests(b->run, b->file, b->site, b->map, &y);
    if (st == TT_OK)
        compare(&x, &y, options, site);
    free(x.all);
    free(y.all);
    return st;
}
