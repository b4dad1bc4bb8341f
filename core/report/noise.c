/* noise.c -- which differences between two runs are rounding.
 *
 * Exists because two runs on different machines, or in different precision, never agree in
 * every bit, and a list of everything that differs says nothing.  Deviations are relative to the root mean
 * square of a tensor, extremes to 8 times that; a bias has the scale of its weight.  docs/explain/noise.md explains
 * the rules.
 *
 * 1. Rounding of one tensor:  base = 2 w + 4 v (1 + sqrt(K)).
 *    w: half a unit in the last place of the less precise of the two types, if that has less than 32 bits, else
 *    0; at least that of any tensor before it.  v: the same for the type in which sums are computed (float32
 *    for types of at most 32 bits).  K: the length of the sums.
 * 2. Within a step rounding is passed on.  The floor of an activation is base, that of a gradient 8 base; or 4
 *    times the largest deviation within its floor so far, if that is larger: for an activation of averages, or of
 *    extremes, of the forward pass; for a gradient of all.  At most 64 * steps times the largest base.
 * 3. From step to step only parameters pass it on.  A parameter may deviate by as much as it has before, and
 *    by a share of how far the optimizer moves it at once: 4 times the largest deviation of a gradient so far,
 *    and one element of n, because Adam makes a whole step of a gradient near zero, whatever its sign.  An
 *    extreme may be one of those elements.
 * 4. Rounding that has no effect on anything else is local: allowed where it is, and not passed on.
 *    Elements of a bias, whose gradient may be zero but for rounding, may move apart by whole steps, and the
 *    output of the module with them.  Under types of less than 32 bits, rounding switches rectifiers: an element
 *    of a gradient, which is a sum of N terms, has one term more or less.
 *
 * A defect stands out because it jumps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MARGIN = 4, PASSED_ON = 4, BACKWARD = 8, MOST = 64, SINGLE = 0x1p-24;

/* Half a unit in the last place; 0: exact. */
static const double roundoff[TT_DTYPE_COUNT_] = {
    [TT_F64] = 0x1p-53,    [TT_C128] = 0x1p-53,       [TT_F32] = 0x1p-24,      [TT_C64] = 0x1p-24,
    [TT_F16] = 0x1p-11,    [TT_BF16] = 0x1p-8,        [TT_F8_E4M3FN] = 0x1p-4, [TT_F8_E4M3FNUZ] = 0x1p-4,
    [TT_F8_E5M2] = 0x1p-3, [TT_F8_E5M2FNUZ] = 0x1p-3,
};

static double roundoff_of(int32_t dtype)
{
    return dtype >= 0 && dtype < TT_DTYPE_COUNT_ ? roundoff[dtype] : 0;
}

/* Finds how many products are summed with this weight for one output; 1: unknown. */
static tt_status sum_length(tt_run *run, int32_t file, int32_t weight, double *out)
{
    tt_point point;
    *out = 1;
    if (tt_run_points(run, file, weight) == 0)
        return TT_OK;
    tt_status st = tt_run_point(run, file, weight, -1, &point, NULL);
    double elements = 1;
    for (int32_t d = 1; st == TT_OK && d < point.ndim; d++)
        elements *= (double)point.shape[d];
    *out = st == TT_OK && elements >= 1 ? elements : 1;
    return st;
}

/* The same for one element of what this module returns, or of this gradient. */
static tt_status reduction_length(tt_run *run, int32_t file, int32_t site, double *out)
{
    const char *name = tt_run_site_name(run, site), *slash = strchr(name, '/');
    tt_rank_in_step kind = tt_order_kind(name);
    const char *tail = kind == TT_ORDER_GRADIENT || kind == TT_ORDER_PARAMETER ? "" : ".weight";
    int32_t weight = slash != NULL ? tt_order_find(run, "parameter", slash, tail) : -1;
    return sum_length(run, file, weight, out);
}

/* Finds how many terms the gradient of a parameter is the sum of: the elements of its module's output for
 * each unit.  1: unknown. */
static tt_status terms_of(tt_run *run, int32_t file, int32_t site, double units, double *out)
{
    const char *name = tt_run_site_name(run, site), *slash = strchr(name, '/');
    char module[4200];
    tt_point point;
    const char *dot = slash != NULL ? strrchr(slash, '.') : NULL;
    (void)snprintf(module, sizeof module, "%.*s", dot != NULL ? (int)(dot - slash) : 0, slash);
    int32_t output = tt_order_find(run, "activation", module, "");
    *out = 1;
    if (tt_run_points(run, file, output) == 0)
        return TT_OK;
    tt_status st = tt_run_point(run, file, output, -1, &point, NULL);
    if (st == TT_OK && (double)point.stats.count > units)
        *out = (double)point.stats.count / units;
    return st;
}

tt_status tt_noise_weight(tt_run *run, int32_t file, int32_t site, int32_t *weight, double *times)
{
    static const char word[] = "bias";
    const char *name = site >= 0 ? tt_run_site_name(run, site) : "", *slash = strchr(name, '/');
    const char *last = strrchr(name, '.'), *bias = last != NULL ? strstr(last, word) : NULL;
    tt_rank_in_step kind = tt_order_kind(name);
    char module[4200];
    *weight = -1;
    *times = 1;
    if (bias == NULL || (kind != TT_ORDER_PARAMETER && kind != TT_ORDER_GRADIENT) ||
        (size_t)(bias - slash) >= sizeof module)
        return TT_OK;
    (void)snprintf(module, sizeof module, "%.*sweight", (int)(bias - slash), slash);
    const char *of = kind == TT_ORDER_PARAMETER ? "parameter" : "gradient";
    *weight = tt_order_find(run, of, module, bias + strlen(word));
    tt_status st = kind == TT_ORDER_PARAMETER ? sum_length(run, file, *weight, times) : TT_OK;
    *times = sqrt(*times);
    return st;
}

void tt_noise_role(const tt_run *run, int32_t site, bool has_weight, tt_diff_pair *pair)
{
    const char *name = site >= 0 ? tt_run_site_name(run, site) : "", *slash = strchr(name, '/');
    pair->role = has_weight && pair->kind == TT_ORDER_GRADIENT ? TT_ROLE_GRADIENT
                 : has_weight                                  ? TT_ROLE_BIAS
                 : tt_name_begins(name, "activation/")         ? TT_ROLE_OUTPUT
                                                               : TT_ROLE_NONE;
    if (pair->role == TT_ROLE_BIAS)
        pair->partner_place = tt_order_place(run, tt_order_find(run, "gradient", slash, ""));
    if (pair->role == TT_ROLE_OUTPUT)
        pair->partner_place = tt_order_place(run, tt_order_find(run, "parameter", slash, ".bias"));
}

tt_status tt_noise_expect(tt_run *a, int32_t file_a, int32_t site_a, tt_run *b, int32_t file_b,
                          int32_t site_b, tt_diff_pair *pair)
{
    tt_point x, y;
    double length = 0;
    tt_status st = tt_run_point(a, file_a, site_a, -1, &x, NULL);
    if (st == TT_OK)
        st = tt_run_point(b, file_b, site_b, -1, &y, NULL);
    if (st == TT_OK)
        st = reduction_length(a, file_a, site_a, &length);
    double units = st == TT_OK && x.ndim > 0 && x.shape[0] > 1 ? (double)x.shape[0] : 1;
    if (st == TT_OK && pair->kind == TT_ORDER_GRADIENT)
        st = terms_of(a, file_a, site_a, units, &pair->terms);
    if (st < 0)
        return st;
    if (pair->role == TT_ROLE_GRADIENT)
        length = pair->terms; /* which may cancel */
    bool is_scalar = (x.products & y.products & TT_PRODUCT_STATS) == 0;
    double u = is_scalar ? SINGLE : fmax(roundoff_of(x.stats.dtype), roundoff_of(y.stats.dtype));
    pair->coarse = u > SINGLE ? u : 0;
    pair->base = MARGIN * fmin(u, SINGLE) * (1 + (pair->kind == TT_ORDER_PARAMETER ? 0 : sqrt(length)));
    pair->elements = is_scalar ? 1 : x.stats.count;
    pair->is_exact = !is_scalar && u == 0;
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
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->site.rank > y->site.rank) - (x->site.rank < y->site.rank);
}

/* What came before. */
typedef struct past {
    double forward[TT_GAP_COUNT_], backward; /* the largest deviation within its floor */
    double base;                             /* the largest of what deviates */
    double steps;                            /* since the first difference */
} past;

/* Returns a distance between values in the unit of the gap's deviation. */
static double relative(const tt_gap *gap, int k, double distance)
{
    double off = fabs(gap->a[k] - gap->b[k]), deviation = (double)gap->deviation[k];
    return off > 0 && isfinite(deviation) ? distance * (deviation / off) : 0;
}

/* Returns the bias that this is, or that is in the module that returned this; NULL: none. */
static tt_diff_pair *bias_of(tt_diff_pair *pair)
{
    return pair->role == TT_ROLE_BIAS ? pair : pair->role == TT_ROLE_OUTPUT ? pair->partner : NULL;
}

/* Is the gradient of this bias zero but for rounding, and does the bias move nevertheless? */
static bool is_moved_by_rounding(const tt_diff_pair *bias)
{
    return bias != NULL && bias->partner != NULL && !bias->partner->is_real && bias->reach > 0;
}

/* Returns the deviation that rounding before this point, or in it, explains. */
static double floor_of(const past *h, const tt_diff_pair *pair, const tt_gap *gap, int k)
{
    if (pair->is_exact)
        return 0;
    if (pair->kind == TT_ORDER_PARAMETER) {
        double n = (double)pair->elements;
        double one = pair->role == TT_ROLE_BIAS ? 0 : 1 / n; /* a bias: see below */
        double noisy = PASSED_ON * h->backward, share = noisy > 0 ? noisy + one : 0;
        if (k == TT_GAP_EXTREME && noisy > 0) /* it may be one of those noisy * n elements */
            share = noisy * n + TT_NOISE_EXTREMES * one;
        share = fmin(1, share);
        return pair->base + relative(gap, k, pair->apart[k] + share * 2 * (double)gap->moved);
    }
    bool is_forward = pair->kind <= TT_ORDER_LOSS;
    double forward = fmax(h->forward[TT_GAP_AVERAGE], h->forward[TT_GAP_EXTREME]);
    double before = is_forward ? h->forward[k] : fmax(forward, h->backward);
    double base = is_forward ? pair->base : BACKWARD * pair->base;
    return fmin(fmax(base, PASSED_ON * before), MOST * h->steps * fmax(h->base, pair->base));
}

/* Returns the deviation that rounding explains without an effect on what comes after. */
static double local_floor_of(const past *h, tt_diff_pair *pair, const tt_gap *gap, int k)
{
    const tt_diff_pair *bias = bias_of(pair);
    if (bias == pair && h->backward > 0) /* all elements, or some: keys among queries and values */
        return pair->base + relative(gap, k, pair->apart[k] + 4 * (double)gap->moved);
    if (bias != NULL && bias != pair) {
        double n = (double)bias->elements; /* one of them may be n times as far apart as the average */
        double one = 2 * bias->apart[TT_GAP_AVERAGE] * (k == TT_GAP_EXTREME ? n : sqrt(n));
        return relative(gap, k, is_moved_by_rounding(bias) ? bias->reach : fmin(bias->reach, one));
    }
    if (pair->kind == TT_ORDER_GRADIENT && pair->coarse > 0 && pair->terms > 1)
        return k == TT_GAP_EXTREME ? 2 / sqrt(pair->terms) : 4 / (double)pair->elements;
    return 0;
}

/* Adds a gap to the answer about its site; true: it is above a floor. */
static bool judge_gap(tt_diff_pair *pair, const tt_gap *gap, const double floor[TT_GAP_COUNT_])
{
    tt_diff_site *site = &pair->site;
    bool is_beyond = false;
    int shown =
        isnan(gap->a[TT_GAP_AVERAGE]) && isnan(gap->b[TT_GAP_AVERAGE]) ? TT_GAP_EXTREME : TT_GAP_AVERAGE;
    for (int k = 0; k < TT_GAP_COUNT_; k++) {
        bool is_out = !((double)gap->deviation[k] <= floor[k]);
        if (!is_beyond && (is_out || gap->deviation[k] > gap->deviation[shown]))
            shown = k;
        is_beyond |= is_out;
    }
    const tt_diff_point point = {
        gap->step,     gap->call,     (tt_field)gap->field[shown],
        gap->a[shown], gap->b[shown], (double)gap->deviation[shown],
        floor[shown],
    };
    if (is_beyond && site->verdict != TT_DIFF_DIFFERS) {
        site->verdict = TT_DIFF_DIFFERS;
        site->first = site->worst = point; /* replace those within the noise */
    } else if (site->verdict == TT_DIFF_SAME) {
        site->verdict = TT_DIFF_NOISE;
        site->first = site->worst = point;
    } else if ((is_beyond || site->verdict == TT_DIFF_NOISE) && point.deviation > site->worst.deviation) {
        site->worst = point;
    }
    return is_beyond;
}

/* Returns the first step in which the runs differ. */
static int64_t first_difference(const tt_diff_pair *pairs, size_t count)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < pairs[i].count && !pairs[i].gaps[k].is_any)
            k++;
        if (k < pairs[i].count && pairs[i].gaps[k].step < first)
            first = pairs[i].gaps[k].step;
    }
    return first;
}

/* Sorts the pairs, makes what follows a coarse type as coarse, and finds the partners of biases. */
static void prepare(tt_diff_pair *pairs, size_t count, cursor *cursors)
{
    double coarse = 0;
    for (size_t i = 0; i < count; i++)
        cursors[i].pair = &pairs[i];
    qsort(cursors, count, sizeof *cursors, by_execution);
    for (size_t i = 0; i < count; i++) {
        tt_diff_pair *pair = cursors[i].pair;
        if (pair->kind != TT_ORDER_PARAMETER)
            coarse = pair->coarse = fmax(coarse, pair->coarse);
        pair->base += 2 * pair->coarse;
        if (pair->role != TT_ROLE_BIAS && pair->role != TT_ROLE_OUTPUT)
            continue;
        tt_diff_pair partner = { .kind =
                                     pair->role == TT_ROLE_BIAS ? TT_ORDER_GRADIENT : TT_ORDER_PARAMETER,
                                 .place = pair->partner_place,
                                 .site.rank = pair->site.rank };
        const cursor *found =
            bsearch(&(cursor){ .pair = &partner }, cursors, count, sizeof *cursors, by_execution);
        pair->partner = found != NULL ? found->pair : NULL;
    }
}

/* Keeps what this point says about the points after it. */
static void remember(past *h, tt_diff_pair *pair, const tt_gap *gap, bool is_local)
{
    for (int k = 0; k < TT_GAP_COUNT_; k++)
        if (gap->deviation[k] > 0)
            pair->apart[k] = fmax(pair->apart[k], fabs(gap->a[k] - gap->b[k]));
    if (is_local || pair->role == TT_ROLE_BIAS || is_moved_by_rounding(bias_of(pair)))
        return; /* a bias: its module's output shows it */
    double average = (double)gap->deviation[TT_GAP_AVERAGE], root = sqrt((double)pair->elements);
    /* The average hides what one element of n may be off by: up to n times as much, or two steps. */
    double single = fmin(average * root, relative(gap, TT_GAP_AVERAGE, 2 * (double)gap->moved) / root);
    for (int k = 0; k < TT_GAP_COUNT_; k++) {
        double deviation = (double)gap->deviation[k];
        if (pair->kind == TT_ORDER_PARAMETER)
            h->forward[k] = fmax(h->forward[k], fmax(average, single));
        else if (pair->kind <= TT_ORDER_LOSS)
            h->forward[k] = fmax(h->forward[k], deviation);
        else
            h->backward = fmax(h->backward, deviation);
    }
}

/* Judges one gap; true: it is above a floor. */
static bool judge(past *h, tt_diff_pair *pair, const tt_gap *gap, bool has_tolerance)
{
    double floor[TT_GAP_COUNT_] = { 0 };
    bool is_local = false;
    if (pair->role == TT_ROLE_GRADIENT)
        pair->is_real |= (double)gap->size > BACKWARD * pair->base;
    if (pair->role == TT_ROLE_BIAS)
        pair->reach = 4 * (double)gap->moved * h->steps;
    if (!gap->is_any)
        return false;
    h->base = fmax(h->base, pair->base);
    for (int k = 0; !has_tolerance && k < TT_GAP_COUNT_; k++) {
        double deviation = (double)gap->deviation[k], local;
        floor[k] = floor_of(h, pair, gap, k);
        if (deviation <= floor[k] || deviation > (local = local_floor_of(h, pair, gap, k)))
            continue;
        floor[k] = local;
        is_local = pair->role != TT_ROLE_OUTPUT || is_moved_by_rounding(bias_of(pair));
        if (is_moved_by_rounding(bias_of(pair)))
            bias_of(pair)->partner->site.is_rounding = true;
    }
    bool is_beyond = judge_gap(pair, gap, floor);
    if (!is_beyond)
        remember(h, pair, gap, is_local);
    return is_beyond;
}

tt_status tt_noise_judge(tt_diff_pair *pairs, size_t count, bool has_tolerance, int64_t *first)
{
    past h = { 0 };
    cursor *cursors = calloc(count + 1, sizeof *cursors);
    if (cursors == NULL)
        return TT_ENOMEM;
    prepare(pairs, count, cursors);
    size_t live = 0;
    for (size_t i = 0; i < count; i++)
        if (cursors[i].pair->count > 0)
            cursors[live++] = cursors[i];
    int64_t first_step = first_difference(pairs, count);
    while (live > 0) {
        int64_t step = INT64_MAX;
        for (size_t i = 0; i < live; i++)
            if (cursors[i].pair->gaps[cursors[i].at].step < step)
                step = cursors[i].pair->gaps[cursors[i].at].step;
        h.steps = step > first_step ? (double)step - (double)first_step + 1 : 1;
        size_t left = 0;
        for (size_t i = 0; i < live; i++) {
            cursor c = cursors[i];
            for (; c.at < c.pair->count && c.pair->gaps[c.at].step <= step; c.at++)
                if (judge(&h, c.pair, &c.pair->gaps[c.at], has_tolerance) && *first < 0)
                    *first = c.pair - pairs;
            if (c.at < c.pair->count)
                cursors[left++] = c;
        }
        live = left;
    }
    for (size_t i = 0; i < count; i++)
        pairs[i].site.is_rounding &= !pairs[i].is_real; /* not to the end */
    free(cursors);
    return TT_OK;
}
