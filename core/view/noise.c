/* noise.c -- which differences between two runs are rounding.
 *
 * Exists because two runs on different machines, or in different precision, never
 * agree to the bit, and a list of everything that differs says nothing.
 *
 * The rounding of one tensor, relative to its root mean square:
 *     base = w + 4 v (1 + sqrt(K))
 * w: half a unit in the last place of the less precise of the two types, if it has
 * less than 32 bits, else 0; v: the same of the type in which sums are kept (float32
 * for types of 32 bits and less); K: the length of the sums, elements of the weight
 * for each output.  Mean and root mean square average over elements, so that no
 * margin is needed for w; extremes, which do not, may be off by 8 times as much.
 *
 * Rounding is handed on: what a layer gets is already off.  So the floor of a point
 * is base, or 4 times the largest deviation within the floor seen before it in the
 * order of execution, whichever is larger; never more than 64 * (steps since the
 * first compared + 1) times the largest base so far.  A fault stands out because it
 * jumps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "view/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MARGIN = 4, HANDED_ON = 4, MOST = 64, SINGLE = 0x1p-24;

/* Half a unit in the last place; 0: exact. */
static double roundoff(int32_t dtype)
{
    switch ((tt_dtype)dtype) {
    case TT_F64:
    case TT_C128:
        return 0x1p-53;
    case TT_F32:
    case TT_C64:
        return 0x1p-24;
    case TT_F16:
        return 0x1p-11;
    case TT_BF16:
        return 0x1p-8;
    case TT_F8_E4M3FN:
    case TT_F8_E4M3FNUZ:
        return 0x1p-4;
    case TT_F8_E5M2:
    case TT_F8_E5M2FNUZ:
        return 0x1p-3;
    case TT_I8:
    case TT_I16:
    case TT_I32:
    case TT_I64:
    case TT_U8:
    case TT_U16:
    case TT_U32:
    case TT_U64:
    case TT_BOOL:
    case TT_DTYPE_COUNT_:
        break;
    }
    return 0;
}

/* Products summed for one element of what this module puts out; 1: not known. */
static tt_status reduction_length(tt_run *run, int32_t file, int32_t site, double *out)
{
    const char *name = tt_run_site_name(run, site), *slash = strchr(name, '/');
    char weight[TT_NUMBER_TEXT + 4200];
    *out = 1;
    if (slash == NULL || strlen(slash) > 4096)
        return TT_OK;
    bool is_parameter = tt_order_kind(name) == TT_ORDER_GRADIENT;
    size_t len =
        (size_t)snprintf(weight, sizeof weight, "parameter%s%s", slash, is_parameter ? "" : ".weight");
    int32_t found = len < sizeof weight ? tt_run_find(run, weight) : -1;
    tt_point point;
    if (found < 0 || tt_run_points(run, file, found) == 0)
        return TT_OK;
    tt_status st = tt_run_point(run, file, found, -1, &point, NULL);
    double elements = 1;
    for (int32_t d = 1; st == TT_OK && d < point.ndim; d++)
        elements *= (double)point.shape[d];
    if (st == TT_OK && elements >= 1)
        *out = elements;
    return st;
}

tt_status tt_noise_base(tt_run *a, int32_t file_a, int32_t site_a, tt_run *b, int32_t file_b,
                        int32_t site_b, double *out)
{
    tt_point x, y;
    double length;
    tt_status st = tt_run_point(a, file_a, site_a, -1, &x, NULL);
    if (st == TT_OK)
        st = tt_run_point(b, file_b, site_b, -1, &y, NULL);
    if (st == TT_OK)
        st = reduction_length(a, file_a, site_a, &length);
    if (st < 0)
        return st;
    bool is_scalar = (x.products & y.products & TT_PRODUCT_STATS) == 0;
    double u = is_scalar ? SINGLE : fmax(roundoff(x.stats.dtype), roundoff(y.stats.dtype));
    bool is_parameter = tt_order_kind(tt_run_site_name(a, site_a)) == TT_ORDER_PARAMETER;
    double sums = MARGIN * fmin(u, SINGLE) * (1 + (is_parameter ? 0 : sqrt(length)));
    *out = (u > SINGLE ? u : 0) + sums;
    return TT_OK;
}

/* ---- the judgement ------------------------------------------------------- */

typedef struct cursor {
    tt_diff_pair *pair;
    size_t at;
} cursor;

static int by_execution(const void *a, const void *b)
{
    const tt_diff_pair *x = ((const cursor *)a)->pair, *y = ((const cursor *)b)->pair;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    int later = (x->number > y->number) - (x->number < y->number);
    if (x->number == y->number)
        return (x->site.rank > y->site.rank) - (x->site.rank < y->site.rank);
    return x->kind == TT_ORDER_GRADIENT ? -later : later;
}

static void judge_gap(tt_diff_pair *pair, const tt_gap *gap, double floor)
{
    tt_diff_site *site = &pair->site;
    bool is_beyond = !(gap->deviation <= floor);
    if (is_beyond && site->verdict != TT_DIFF_DIFFERS) {
        site->verdict = TT_DIFF_DIFFERS;
        site->first_step = gap->step; /* takes the place of one within the noise */
        site->first_call = gap->call;
        site->worst_step = -1;
    } else if (site->verdict == TT_DIFF_SAME) {
        site->verdict = TT_DIFF_NOISE;
        site->first_step = gap->step;
        site->first_call = gap->call;
    }
    if ((is_beyond || site->verdict != TT_DIFF_DIFFERS) &&
        (site->worst_step < 0 || gap->deviation > site->deviation)) {
        site->deviation = gap->deviation;
        site->floor = floor;
        site->worst_step = gap->step;
        site->worst_field = gap->field;
        site->a = gap->a;
        site->b = gap->b;
    }
}

tt_status tt_noise_judge(tt_diff *diff, bool has_tolerance)
{
    cursor *cursors = calloc(diff->count + 1, sizeof *cursors);
    if (cursors == NULL)
        return TT_ENOMEM;
    size_t live = 0;
    for (size_t i = 0; i < diff->count; i++)
        if (diff->pairs[i].count > 0)
            cursors[live++].pair = &diff->pairs[i];
    qsort(cursors, live, sizeof *cursors, by_execution);
    double handed_on = 0, coarsest = 0;
    int64_t first_step = 0, part_step = INT64_MAX;
    bool has_first = false;
    diff->first = -1;
    while (live > 0) {
        int64_t step = INT64_MAX;
        for (size_t i = 0; i < live; i++)
            if (cursors[i].pair->gaps[cursors[i].at].step < step)
                step = cursors[i].pair->gaps[cursors[i].at].step;
        first_step = has_first ? first_step : step;
        has_first = true;
        size_t left = 0;
        for (size_t i = 0; i < live; i++) {
            cursor c = cursors[i];
            for (; c.at < c.pair->count && c.pair->gaps[c.at].step <= step; c.at++) {
                const tt_gap *gap = &c.pair->gaps[c.at];
                coarsest = fmax(coarsest, c.pair->base);
                double most = coarsest * MOST * ((double)step - (double)first_step + 1);
                double floor = has_tolerance ? 0 : fmin(fmax(c.pair->base, HANDED_ON * handed_on), most);
                judge_gap(c.pair, gap, floor);
                if (gap->deviation <= floor)
                    handed_on = fmax(handed_on, gap->deviation);
                else if (part_step == INT64_MAX) {
                    part_step = step;
                    diff->first = c.pair - diff->pairs;
                }
            }
            if (c.at < c.pair->count)
                cursors[left++] = c;
        }
        live = left;
    }
    free(cursors);
    return TT_OK;
}
