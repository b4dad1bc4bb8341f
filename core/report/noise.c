/* noise.c -- which differences between two runs are rounding.
 *
 * Exists because two runs on different machines, or in different precision, never agree in
 * every bit, and a list of everything that differs says nothing.
 *
 * The rounding of one tensor, relative to its root mean square:
 *     base = w + 4 v (1 + sqrt(K))
 * w: half a unit in the last place of the less precise of the two types, if that has less than
 * 32 bits, else 0; v: the same for the type in which sums are computed (float32 for types of at
 * most 32 bits); K: the length of the sums, which is the number of elements of the weight per
 * output.  Mean and root mean square average over elements, so w needs no margin, but for up to 2 w if
 * there are fewer than 16.  Extremes are single elements: 2 w, because two roundings of one are that far apart;
 * and they may deviate 8 times as much, or as their own size does if that is larger (gradients of embeddings are
 * zero but for a few rows).  What is computed after a tensor of less than 32 bits has at least the w of that.
 *
 * A bias is judged on the scale of the weight beside it, if that is larger than its own.  Its gradient
 * is a sum of the same terms as the weight's, and these may cancel: the bias of an attention's keys,
 * or one in front of a batch norm, has a gradient of zero, and what is recorded of it is the rounding
 * of the terms.  The bias itself is added to sums of K products with the weight, so its own scale
 * is sqrt(K) times the weight's.
 *
 * Rounding switches a rectifier where its input is near zero.  The gradient of a weight is a sum of N terms,
 * one for each element of the output of a unit, and one term more or less is up to 16 times as large as they
 * are on average.  With types of less than 32 bits that happens to some elements in every step, so extremes of
 * gradients may then deviate by 16 / sqrt(N) of the root mean square, and averages over U units by a U-th of
 * that.  It is not passed on.
 *
 * Rounding is passed on: the input of a layer already deviates.  So the floor of a point is
 * base, or 4 times the largest deviation within its floor that came before it in the order of
 * execution, whichever is larger; at most 64 * (steps since the first compared + 1) times the
 * largest base so far.  A defect stands out because it jumps.
 *
 * Averages pass deviations on to averages, and extremes, which are ten times as rough, to
 * extremes; and from kind to kind only as the numbers themselves flow.  From forward to gradient
 * as within a kind; from gradient to parameter 16 times, because optimizers such as Adam make a
 * whole step of a gradient near zero, whatever its sign; to a bias more, see its drift; from parameter
 * to forward once.  An average over fewer elements is rougher, by the root of the ratio, at most 8; a
 * parameter of few elements changes a large average by that much less.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MARGIN = 4, PASSED_ON = 4, MOST = 64, SINGLE = 0x1p-24;

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
 * each of `elements` units.  1: unknown. */
static tt_status terms_of(tt_run *run, int32_t file, int32_t site, double elements, double *out)
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
    if (st == TT_OK && (double)point.stats.count > elements)
        *out = (double)point.stats.count / elements;
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

tt_drift tt_noise_drift(const tt_run *run, int32_t site, bool has_weight)
{
    const char *name = site >= 0 ? tt_run_site_name(run, site) : "", *slash = strchr(name, '/');
    tt_rank_in_step kind = tt_order_kind(name);
    tt_drift drift = { .place = -1,
                       .role = has_weight && kind == TT_ORDER_GRADIENT ? TT_DRIFT_GRADIENT
                               : has_weight                            ? TT_DRIFT_BIAS
                               : tt_name_begins(name, "activation/")   ? TT_DRIFT_OUTPUT
                                                                       : TT_DRIFT_NONE };
    if (drift.role == TT_DRIFT_BIAS || drift.role == TT_DRIFT_OUTPUT)
        drift.place = tt_order_place(
            run, tt_order_find(run, "gradient", slash, drift.role == TT_DRIFT_BIAS ? "" : ".bias"));
    return drift;
}

/* Returns by how many w an average deviates.  Two roundings of one element may be 2 w apart; of 16 or more, not
 * all are at once. */
static double few(int64_t elements)
{
    return fmax(1, fmin(2, 4 / sqrt(fmax((double)elements, 1))));
}

tt_status tt_noise_expect(tt_run *a, int32_t file_a, int32_t site_a, tt_run *b, int32_t file_b,
                          int32_t site_b, tt_diff_pair *pair)
{
    tt_point x, y;
    double length = 0, terms = 0;
    tt_status st = tt_run_point(a, file_a, site_a, -1, &x, NULL);
    if (st == TT_OK)
        st = tt_run_point(b, file_b, site_b, -1, &y, NULL);
    if (st == TT_OK)
        st = reduction_length(a, file_a, site_a, &length);
    double units = st == TT_OK && x.ndim > 0 && x.shape[0] > 1 ? (double)x.shape[0] : 1;
    if (st == TT_OK && pair->kind == TT_ORDER_GRADIENT)
        st = terms_of(a, file_a, site_a, units, &terms);
    if (st < 0)
        return st;
    bool is_scalar = (x.products & y.products & TT_PRODUCT_STATS) == 0;
    double u = is_scalar ? SINGLE : fmax(roundoff_of(x.stats.dtype), roundoff_of(y.stats.dtype));
    double sums = MARGIN * fmin(u, SINGLE) * (1 + (pair->kind == TT_ORDER_PARAMETER ? 0 : sqrt(length)));
    pair->fan = sqrt(length);
    pair->coarse = u > SINGLE ? u : 0;
    pair->elements = is_scalar ? 1 : x.stats.count;
    pair->base = pair->coarse * few(pair->elements) + sums;
    double term = terms > 1 ? 16 / sqrt(terms) : 0;
    pair->switched[TT_GAP_EXTREME] = term / TT_NOISE_EXTREMES;
    pair->switched[TT_GAP_AVERAGE] = term / (x.ndim > 0 ? units : (double)pair->elements);
    pair->drift.cancelled = pair->coarse + MARGIN * fmin(u, SINGLE) * (1 + sqrt(terms));
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

/* ---- deviations that are passed on ----------------------------------------- */

typedef enum stream { PARAMETERS, FORWARD, BACKWARD, STREAMS } stream;

enum { SIZES = 48, ROUGHEST = 6 }; /* powers of two: of elements, of their ratio */

/* The largest deviation within the floor that reaches a tensor of 2^i elements. */
typedef struct passed {
    double most[STREAMS][TT_GAP_COUNT_][SIZES];
    double coarsest;                   /* base so far */
    double root[SIZES + ROUGHEST + 1]; /* [SIZES + i]: of 2^i */
} passed;

static stream stream_of(tt_rank_in_step kind)
{
    return kind == TT_ORDER_PARAMETER ? PARAMETERS : kind <= TT_ORDER_LOSS ? FORWARD : BACKWARD;
}

static int size_class(int64_t elements)
{
    int i = elements > 1 ? 63 - __builtin_clzll((unsigned long long)elements) : 0;
    return i < SIZES ? i : SIZES - 1;
}

static void pass_on(passed *h, stream from, const tt_diff_pair *pair, tt_gap_kind kind, double deviation)
{
    int own = size_class(pair->elements);
    double *most = h->most[from][kind];
    for (int i = 0; i < SIZES; i++) {
        int finer = own - i < ROUGHEST ? own - i : ROUGHEST;
        if (kind == TT_GAP_EXTREME || (finer < 0 && from != PARAMETERS))
            finer = 0;
        double there = deviation * h->root[finer + SIZES];
        most[i] = most[i] > there ? most[i] : there;
    }
}

static double floor_of(const passed *h, const tt_diff_pair *pair, tt_gap_kind kind, double most)
{
    /* Which stream feeds another, and how many times larger a deviation may arrive there. */
    static const struct {
        stream from;
        double times;
    } fed[STREAMS] = {
        [PARAMETERS] = { BACKWARD, 16 }, [FORWARD] = { PARAMETERS, 1 }, [BACKWARD] = { FORWARD, 4 }
    };
    int i = size_class(pair->elements);
    stream own = stream_of(pair->kind);
    double passed_on =
        fmax(PASSED_ON * h->most[own][kind][i], fed[own].times * h->most[fed[own].from][kind][i]);
    double twice = kind == TT_GAP_EXTREME ? (few(1) - few(pair->elements)) * pair->coarse : 0;
    return fmin(fmax(pair->base + twice, passed_on), most);
}

/* ---- the drift of biases ----------------------------------------------------
 * A bias in front of a batch norm has no effect, and a gradient of zero.  Adam makes whole steps of what is
 * recorded of it, which is rounding: the bias moves by up to the learning rate in each step, elsewhere in
 * either run, and the module's output with it.  What comes after is the same.
 *
 * The runs show that.  A sum of N terms that cancel leaves a rounding of 4 times base, with N for K and on
 * the scale of the weight's gradient; 4 times, because a batch norm subtracts the mean of larger terms.  If in
 * neither run the gradient of a bias was ever larger, and neither moved the bias at once by more than 8
 * times what the other does, then rounding moved it.  The bias and its module's output may deviate by the
 * sum of such movements.  Nothing of this is passed on to other sites. */

/* Looks whether the gradient of a bias is the rounding of terms that cancel. */
static void judge_size(tt_drift *drift, const tt_gap *gap, double floor[TT_GAP_COUNT_])
{
    bool is_real = (double)gap->size > drift->cancelled;
    drift->is_seen |= gap->is_any; /* of equal gradients an optimizer makes equal steps */
    drift->is_real |= is_real;
    for (int k = 0; !is_real && k < TT_GAP_COUNT_; k++)
        floor[k] = fmax(floor[k], drift->cancelled);
}

/* Raises floors by what such movements explain; is_local: in which kinds. */
static void allow_drift(const passed *h, tt_diff_pair *pair, const tt_gap *gap, double most,
                        double floor[TT_GAP_COUNT_], bool is_local[TT_GAP_COUNT_])
{
    tt_diff_pair *gradient = pair->drift.gradient;
    const bool is_bias = pair->drift.role == TT_DRIFT_BIAS;
    if (gradient == NULL)
        return;
    tt_drift *of = &gradient->drift;
    of->is_real |= is_bias && gap->moved < 0;
    const bool is_rounding = of->is_seen && !of->is_real;
    if (is_bias && is_rounding && gap->moved > 0)
        of->reach += 2 * (double)gap->moved; /* statistics move less than single elements */
    for (int k = 0; k < TT_GAP_COUNT_; k++) {
        double off = fabs(gap->a[k] - gap->b[k]), deviation = (double)gap->deviation[k], limit = 0;
        if (is_rounding && isfinite(deviation)) /* a NaN more is never rounding */
            limit = deviation * (of->reach / off);
        /* Single elements may be moved by rounding: those of the keys in an attention's in_proj_bias. */
        else if (is_bias && !(gap->moved < 0) && h->most[BACKWARD][k][size_class(pair->elements)] > 0)
            limit = most;
        if (!(deviation > floor[k] && deviation <= limit))
            continue;
        floor[k] = limit;
        is_local[k] = is_rounding;
        gradient->site.is_rounding |= is_rounding;
    }
}

/* ---- single elements -------------------------------------------------------
 * Where rounding is most of one element's gradient, Adam moves that element by up to a whole step to either
 * side.  A step is as large as what moves the statistics most: extremes are single elements.  An average over n
 * elements shows an n-th of it.  The module's outputs get the element times an input, in sums of K
 * products: extremes show it divided by sqrt(K), averages by sqrt(n), as the whole parameter's norm does.
 * The elements of a bias are added to the output as they are, however small its other terms: if the
 * mean of n elements differs by d because of one, then that differs by n d, and the root mean square by up to
 * sqrt(n) d.  Twice for the one: others may cancel a part of it in the mean. */

/* Raises floors by what single elements of a parameter explain. */
static void allow_single(const passed *h, const tt_diff_pair *pair, const tt_gap *gap, double most,
                         double floor[TT_GAP_COUNT_])
{
    const tt_diff_pair *bias = pair->drift.role == TT_DRIFT_OUTPUT ? pair->drift.gradient : NULL;
    double limit[TT_GAP_COUNT_] = { 0 }, n = (double)(bias != NULL ? bias->elements : pair->elements);
    if (bias != NULL) {
        limit[TT_GAP_AVERAGE] = bias->drift.apart * sqrt(n);
        limit[TT_GAP_EXTREME] = bias->drift.apart * n * 2;
    } else if (pair->kind == TT_ORDER_PARAMETER && gap->moved > 0 &&
               h->most[BACKWARD][TT_GAP_AVERAGE][size_class(pair->elements)] > 0) {
        limit[TT_GAP_AVERAGE] = (double)gap->moved / n;
    }
    for (int k = 0; k < TT_GAP_COUNT_; k++) {
        double off = fabs(gap->a[k] - gap->b[k]), deviation = (double)gap->deviation[k];
        if (deviation > floor[k] && isfinite(deviation))
            floor[k] = fmax(floor[k], fmin(most, deviation * (limit[k] / off)));
    }
}

/* Passes on what a deviation of this parameter's average may be in a single element. */
static void pass_single(passed *h, tt_diff_pair *pair, const tt_gap *gap)
{
    double off = fabs(gap->a[TT_GAP_AVERAGE] - gap->b[TT_GAP_AVERAGE]);
    if (pair->kind != TT_ORDER_PARAMETER || !(off > 0) || !(gap->moved > 0)) /* not by an optimizer */
        return;
    double single = off * (double)pair->elements;
    if (pair->drift.role == TT_DRIFT_BIAS && pair->drift.gradient != NULL) {
        tt_drift *of = &pair->drift.gradient->drift;
        of->apart = fmax(of->apart, off); /* the largest so far: another time they may cancel */
    } else {
        single = fmin(single, (double)gap->moved) * ((double)gap->deviation[TT_GAP_AVERAGE] / off);
        pass_on(h, FORWARD, pair, TT_GAP_EXTREME, single / (TT_NOISE_EXTREMES * pair->fan));
        pass_on(h, FORWARD, pair, TT_GAP_AVERAGE, single / sqrt((double)pair->elements));
    }
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

/* Sorts the pairs, makes what follows a coarse type as coarse, and finds the gradients of biases. */
static void prepare(tt_diff_pair *pairs, size_t count, cursor *cursors)
{
    double coarse = 0;
    for (size_t i = 0; i < count; i++)
        cursors[i].pair = &pairs[i];
    qsort(cursors, count, sizeof *cursors, by_execution);
    for (size_t i = 0; i < count; i++) {
        tt_diff_pair *pair = cursors[i].pair;
        double coarser = pair->kind != TT_ORDER_PARAMETER ? fmax(coarse - pair->coarse, 0) : 0;
        pair->base += coarser * few(pair->elements);
        pair->drift.cancelled = PASSED_ON * (pair->drift.cancelled + coarser);
        if (pair->kind != TT_ORDER_PARAMETER)
            coarse = pair->coarse = fmax(coarse, pair->coarse);
        if (coarse == 0)
            memset(pair->switched, 0, sizeof pair->switched);
        if (pair->drift.role != TT_DRIFT_BIAS && pair->drift.role != TT_DRIFT_OUTPUT)
            continue;
        tt_diff_pair gradient = { .kind = TT_ORDER_GRADIENT,
                                  .place = pair->drift.place,
                                  .site.rank = pair->site.rank };
        const cursor *found =
            bsearch(&(cursor){ .pair = &gradient }, cursors, count, sizeof *cursors, by_execution);
        pair->drift.gradient = found != NULL ? found->pair : NULL;
    }
}

/* Judges one gap; true: it is above a floor. */
static bool judge(passed *h, tt_diff_pair *pair, const tt_gap *gap, bool has_tolerance, double steps)
{
    double floor[TT_GAP_COUNT_] = { 0 };
    bool is_local[TT_GAP_COUNT_] = { false }; /* not passed on */
    if (gap->is_any)
        h->coarsest = fmax(h->coarsest, pair->base);
    double most = fmax(h->coarsest, pair->base) * MOST * steps;
    for (int k = 0; !has_tolerance && k < TT_GAP_COUNT_; k++)
        floor[k] = floor_of(h, pair, (tt_gap_kind)k, most);
    if (pair->drift.role == TT_DRIFT_GRADIENT)
        judge_size(&pair->drift, gap, floor);
    if (!gap->is_any)
        return false;
    if (!has_tolerance) {
        allow_drift(h, pair, gap, most, floor, is_local);
        allow_single(h, pair, gap, most, floor);
    }
    for (int k = 0; !has_tolerance && k < TT_GAP_COUNT_; k++) {
        double deviation = (double)gap->deviation[k];
        if (deviation > floor[k] && deviation <= pair->switched[k]) {
            floor[k] = pair->switched[k];
            is_local[k] = true;
        }
    }
    bool is_beyond = judge_gap(pair, gap, floor);
    for (int k = 0; !is_beyond && k < TT_GAP_COUNT_; k++)
        if (!is_local[k])
            pass_on(h, stream_of(pair->kind), pair, (tt_gap_kind)k, (double)gap->deviation[k]);
    if (!is_beyond && !is_local[TT_GAP_AVERAGE])
        pass_single(h, pair, gap);
    return is_beyond;
}

tt_status tt_noise_judge(tt_diff_pair *pairs, size_t count, bool has_tolerance, int64_t *first)
{
    cursor *cursors = calloc(count + 1, sizeof *cursors);
    passed *h = calloc(1, sizeof *h);
    if (cursors == NULL || h == NULL) {
        free(cursors);
        free(h);
        return TT_ENOMEM;
    }
    for (int i = -SIZES; i <= ROUGHEST; i++)
        h->root[SIZES + i] = sqrt(ldexp(1, i));
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
        double steps = step > first_step ? (double)step - (double)first_step + 1 : 1;
        size_t left = 0;
        for (size_t i = 0; i < live; i++) {
            cursor c = cursors[i];
            for (; c.at < c.pair->count && c.pair->gaps[c.at].step <= step; c.at++)
                if (judge(h, c.pair, &c.pair->gaps[c.at], has_tolerance, steps) && *first < 0)
                    *first = c.pair - pairs;
            if (c.at < c.pair->count)
                cursors[left++] = c;
        }
        live = left;
    }
    for (size_t i = 0; i < count; i++)
        pairs[i].site.is_rounding &= !pairs[i].drift.is_real; /* not to the end */
    free(cursors);
    free(h);
    return TT_OK;
}
