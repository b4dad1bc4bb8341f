/* addends.c -- the sum of addends, of which each rank has one.
 *
 * Exists because statistics of addends say nothing about their sum: where the elements themselves were kept
 * (gradients of norms under sequence parallelism), they are added in the order of the mesh.  The program's own sum
 * may differ in the last bits, as sums do in another order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join/parts.h"

#include "summary/convert.h"

#include <stdlib.h>
#include <string.h>

enum { ADDEND_BYTES = 1 << 20 }; /* what a file says may be anything */

/* Which of the addends a rank has, and how many there are; -1: its placement is of another kind. */
static int64_t number_of(const tt_holding *h, int64_t *count, bool *is_mean)
{
    int64_t number = 0;
    *count = 1;
    *is_mean = false;
    if (h->placement == NULL || h->mesh == NULL || h->placement->mesh_ndim != h->mesh->ndim)
        return -1;
    for (int32_t d = 0; d < h->mesh->ndim; d++) {
        tt_spread spread = h->placement->on[d].spread;
        tt_reduction reduction = h->placement->on[d].reduction;
        if (spread == TT_SPREAD_REPLICA || h->mesh->size[d] == 1)
            continue;
        if (spread != TT_SPREAD_PARTIAL || (reduction != TT_REDUCE_SUM && reduction != TT_REDUCE_AVG) ||
            (*count > 1 && *is_mean != (reduction == TT_REDUCE_AVG)))
            return -1;
        *is_mean = reduction == TT_REDUCE_AVG;
        number = number * h->mesh->size[d] + h->mesh->coordinate[d];
        *count *= h->mesh->size[d];
    }
    return number;
}

/* Finds the kept elements of a point; false: they are not there, or not like those of the first. */
static bool find_value(const tt_gathering *g, const tt_holding *h, const tt_value *first, tt_value *out)
{
    if (!(h->point.products & TT_PRODUCT_VALUE) ||
        tt_run_value_find(g->run, g->parts[h->from->part].file, h->point.value_at, out, NULL) < 0 ||
        out->bytes > ADDEND_BYTES || tt_lane_of(out->dtype) > TT_LANE_F64 ||
        tt_dtype_size(out->dtype) == 0)
        return false;
    return first == NULL || (first->bytes == out->bytes && first->dtype == out->dtype);
}

/* Adds the elements of a value. */
static bool add_value(const tt_gathering *g, const tt_value *value, char *bytes, double *sum)
{
    double room[TT_TILE];
    const size_t item = tt_dtype_size(value->dtype), count = (size_t)value->bytes / item;
    if (tt_run_value_read(g->run, value, bytes, NULL) < 0)
        return false;
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < TT_TILE ? count - at : TT_TILE;
        const double *x = tt_tile_f64(value->dtype, bytes + at * item, room, n);
        for (size_t i = 0; i < n; i++)
            sum[at + i] += x[i];
    }
    return true;
}

/* Describes the sum, in the type that the program has it in or in f32 if that is narrower.  narrow: room for as many
 * floats. */
static bool describe(const tt_value *like, const double *sum, float *narrow, size_t count, tt_whole *out)
{
    tt_tensor whole;
    const bool is_wide = like->dtype == TT_F64;
    for (size_t i = 0; !is_wide && i < count; i++)
        narrow[i] = (float)sum[i];
    const void *data = is_wide ? (const void *)sum : (const void *)narrow;
    if (tt_tensor_describe(&whole, data, is_wide ? TT_F64 : TT_F32, like->ndim, like->shape, NULL, NULL) <
        0)
        return false;
    tt_stats_compute(&whole, &out->point.stats);
    out->point.stats.dtype = (int32_t)like->dtype;
    bool has_hist = (out->point.products & TT_PRODUCT_HIST) != 0 && tt_hist_create(&out->hist) == TT_OK;
    if (has_hist)
        tt_hist_add(out->hist, &whole);
    out->point.products = TT_PRODUCT_STATS | (has_hist ? TT_PRODUCT_HIST : 0);
    return true;
}

tt_outcome tt_join_addends(const tt_gathering *g, tt_holding *all, size_t count, const tt_holding **parts,
                           size_t room, tt_whole *out)
{
    int64_t addends, others;
    bool is_mean, is_like;
    tt_value first, value;
    char *bytes = NULL;
    double *sum = NULL;
    float *narrow = NULL;
    if (number_of(&all[0], &addends, &is_mean) < 0 || (size_t)addends > room ||
        !find_value(g, &all[0], NULL, &first))
        return TT_ADDENDS;
    out->parts = addends;
    out->found = 0;
    memset(parts, 0, (size_t)addends * sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        int64_t number = number_of(&all[i], &others, &is_like);
        if (number < 0 || others != addends || is_like != is_mean ||
            !tt_holding_is_alike(&all[0], &all[i]))
            return TT_ADDENDS;
        out->found += parts[number] == NULL;
        parts[number] = parts[number] == NULL ? &all[i] : parts[number];
    }
    if (out->found < addends)
        return TT_INCOMPLETE;
    const size_t elements = (size_t)first.bytes / tt_dtype_size(first.dtype);
    bytes = malloc((size_t)first.bytes + 1);
    sum = calloc(elements + 1, sizeof *sum);
    narrow = calloc(elements + 1, sizeof *narrow);
    bool is_whole = bytes != NULL && sum != NULL && narrow != NULL;
    for (int64_t k = 0; is_whole && k < addends; k++)
        is_whole = find_value(g, parts[k], &first, &value) && add_value(g, &value, bytes, sum);
    for (size_t i = 0; is_whole && is_mean && i < elements; i++)
        sum[i] /= (double)addends;
    out->point = all[0].point;
    is_whole = is_whole && describe(&first, sum, narrow, elements, out);
    free(bytes);
    free(sum);
    free(narrow);
    return is_whole ? TT_JOINED : TT_ADDENDS;
}
