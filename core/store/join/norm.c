/* norm.c -- the norm of all gradients of a model, from the joined gradients.
 *
 * Exists because each rank has the norm of its own parts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join/parts.h"

#include <math.h>
#include <string.h>

bool tt_norms_are(const char *name)
{
    static const char norm[] = "gradient_norm", clipped[] = "gradient_norm (clipped)";
    return strcmp(name, norm) == 0 || strcmp(name, clipped) == 0;
}

static tt_norm_step *find_step(const tt_norms *n, int64_t step)
{
    size_t low = 0, high = n->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (n->all[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->count && n->all[low].step == step ? &n->all[low] : NULL;
}

/* Adds the joined gradients of one parameter.  The first one sets the steps. */
static tt_status add_norm(tt_norms *n, const tt_join *joined, const tt_index_site *row)
{
    tt_status st = TT_OK;
    tt_points points = { 0 };
    for (uint32_t k = 0; st == TT_OK && k < row->count; k++) {
        tt_chunk chunk;
        st = tt_chunk_parse(&chunk, joined->bytes.data + row->chunks[k].at, row->chunks[k].len);
        if (st == TT_OK)
            st = tt_chunk_unpack(&chunk, (uint32_t)TT_PRODUCT_HIST | TT_PRODUCT_TOKENS, &points);
    }
    for (uint32_t i = 0; st == TT_OK && i < points.n; i++) {
        tt_point p;
        tt_points_get(&points, i, &p);
        tt_norm_step *at = find_step(n, p.step);
        if (at == NULL && n->sites == 0) {
            st = tt_grow(&n->all, &n->cap, n->count + 1, sizeof *n->all);
            if (st == TT_OK)
                *(at = &n->all[n->count++]) = (tt_norm_step){ .step = p.step };
        }
        if (at == NULL || p.is_skipped)
            continue;
        at->sites++;
        at->sumsq += (p.stats.nan | p.stats.posinf | p.stats.neginf) != 0 ? (double)NAN : p.stats.sumsq;
    }
    n->sites++;
    tt_points_free(&points);
    return st;
}

tt_status tt_norms_read(tt_join *joined, tt_tap *tap, tt_norms *n)
{
    static const char kind[] = "gradient/";
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < joined->count; site++) {
        const char *name = tt_run_site_name(joined->parts, site);
        if (strncmp(name, kind, strlen(kind)) != 0)
            continue;
        tt_join_make(joined, tap, site);
        if (site < tap->index.count && tap->index.row[site].stored > 0)
            st = add_norm(n, joined, &tap->index.row[site]);
        else if (joined->site[site].ranks > 0)
            n->sites++; /* it could not be joined: no step is tt_whole */
    }
    return st;
}

bool tt_norms_find(const tt_norms *n, int64_t step, double *out)
{
    const tt_norm_step *at = find_step(n, step);
    if (at == NULL || at->sites != n->sites)
        return false;
    *out = sqrt(at->sumsq);
    return true;
}
