/* diff.c -- where two runs diverge.
 *
 * Exists because "the loss is different" is where a search begins, not where it
 * ends.  Sites are paired by rank and name, points by step and call; a pair of
 * points deviates by the largest difference of its statistics, in units of the
 * tensor's root mean square.  noise.c says how much of that is rounding.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/diff.h"

#include "base/buf.h"
#include "report/order.h"
#include "report/settings.h"
#include "store/run.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fields that are compared, and the columns of the file that they are read from. */
static const struct {
    tt_field field;
    tt_column column;
} fields[] = {
    { TT_FIELD_SCALAR, TT_COLUMN_SCALAR }, { TT_FIELD_NAN, TT_COLUMN_NAN },
    { TT_FIELD_POSINF, TT_COLUMN_POSINF }, { TT_FIELD_NEGINF, TT_COLUMN_NEGINF },
    { TT_FIELD_MEAN, TT_COLUMN_MEAN },     { TT_FIELD_RMS, TT_COLUMN_SUMSQ },
    { TT_FIELD_MIN, TT_COLUMN_MIN },       { TT_FIELD_MAX, TT_COLUMN_MAX },
    { TT_FIELD_COUNT, TT_COLUMN_COUNT }, /* not compared: rms needs it */
};
enum { SCALAR, NAN_COUNT, POSINF, NEGINF, MEAN, RMS, MIN, MAX, COUNT, COLUMNS };

/* One side of a pair: columns of one site.  Its memory is kept from site to site. */
typedef struct side {
    tt_run *run;
    tt_step_map map; /* borrowed */
    int32_t file, site;
    size_t points, cap;
    int64_t *steps, *calls;  /* steps is owned, with all others behind it */
    int64_t *numbers;        /* of the points in their site; -1: put together of several */
    double *values[COLUMNS]; /* NaN: the point does not have the field */
} side;

#define IN_EVALUATION (INT64_C(1) << 32) /* of a call */

/* Appends the points of a chunk, read once for all fields. */
static tt_status load_chunk(side *s, const tt_index_site *row, const tt_index_chunk *entry)
{
    enum { PRODUCTS, STEP, CALL, PHASE, FIELDS };
    tt_column columns[FIELDS + COLUMNS] = { TT_COLUMN_PRODUCTS, TT_COLUMN_STEP, TT_COLUMN_CALL,
                                            TT_COLUMN_PHASE };
    const uint64_t *cells[FIELDS + COLUMNS];
    for (size_t k = 0; k < COLUMNS; k++)
        columns[FIELDS + k] = fields[k].column;
    tt_status st =
        tt_run_columns(s->run, s->run->taps[s->file], row, entry, columns, FIELDS + COLUMNS, cells);
    if (st < 0)
        return st;
    memcpy(s->steps + s->points, cells[STEP], entry->n * sizeof *s->steps);
    for (size_t i = 0; i < entry->n; i++)
        s->calls[s->points + i] = (int64_t)(cells[CALL][i] & UINT32_MAX) |
                                  ((cells[PHASE][i] & 0xff) == TT_PHASE_EVAL ? IN_EVALUATION : 0);
    for (size_t k = 0; k < COLUMNS; k++) {
        const tt_column_kind *kind = &tt_column_kinds[fields[k].column];
        const uint64_t *from = cells[FIELDS + k];
        double *to = s->values[k] + s->points;
        if (kind->type == TT_COLUMN_FLOAT)
            memcpy(to, from, entry->n * sizeof *to);
        for (size_t i = 0; kind->type == TT_COLUMN_INT && i < entry->n; i++)
            to[i] = (double)(int64_t)from[i];
        for (size_t i = 0; i < entry->n; i++)
            if ((cells[PRODUCTS][i] & kind->product) == 0)
                to[i] = NAN;
    }
    for (size_t i = 0; i < entry->n; i++)
        s->numbers[s->points + i] = (int64_t)(s->points + i);
    s->points += entry->n;
    return TT_OK;
}

static void swap_points(side *s, size_t i, size_t j)
{
    int64_t *wholes[] = { s->steps, s->calls, s->numbers };
    for (size_t k = 0; k < sizeof wholes / sizeof *wholes; k++) {
        int64_t kept = wholes[k][i];
        wholes[k][i] = wholes[k][j];
        wholes[k][j] = kept;
    }
    for (size_t k = 0; k < COLUMNS; k++) {
        double kept = s->values[k][i];
        s->values[k][i] = s->values[k][j];
        s->values[k][j] = kept;
    }
}

/* Numbers the calls in training and in evaluation from 0 each, and puts the former first: a run that begins with an
 * evaluation has all calls of its first training step later. */
static void number_calls(side *s)
{
    for (size_t from = 0, to; from < s->points; from = to) {
        int64_t first[2] = { INT64_MAX, INT64_MAX };
        for (to = from; to < s->points && s->steps[to] == s->steps[from]; to++) {
            int64_t *least = &first[s->calls[to] >= IN_EVALUATION];
            *least = s->calls[to] < *least ? s->calls[to] : *least;
        }
        bool are_both = first[0] != INT64_MAX && first[1] != INT64_MAX;
        for (size_t i = from; i < to; i++) {
            bool is_evaluation = s->calls[i] >= IN_EVALUATION;
            if (are_both)
                s->calls[i] += (is_evaluation ? IN_EVALUATION : 0) - first[is_evaluation];
            else if (is_evaluation)
                s->calls[i] -= IN_EVALUATION; /* a training in evaluation mode is one, too */
        }
        for (size_t i = from + 1; i < to; i++)
            for (size_t j = i; j > from && s->calls[j] < s->calls[j - 1]; j--)
                swap_points(s, j, j - 1);
    }
}

static tt_status load_side(side *s, int32_t file, int32_t site, tt_error *err)
{
    size_t n = tt_run_points(s->run, file, site);
    s->file = file;
    s->site = site;
    s->points = 0;
    if (n == 0)
        return TT_OK;
    if (n > s->cap) {
        free(s->steps);
        s->cap = n;
        s->steps = calloc(n * (COLUMNS + 3), sizeof *s->steps);
        if (s->steps == NULL)
            return tt_fail_plain(err, TT_ENOMEM);
        s->calls = s->steps + n;
        s->numbers = s->calls + n;
        for (size_t k = 0; k < COLUMNS; k++)
            s->values[k] = (double *)(void *)(s->steps + n * (k + 3));
    }
    const tt_index_site *row = tt_run_row(s->run, file, site);
    for (uint32_t k = 0; k < row->count; k++) {
        tt_status st =
            row->chunks[k].n <= n - s->points ? load_chunk(s, row, &row->chunks[k]) : TT_EFORMAT;
        if (st < 0)
            return tt_fail(err, st, "%.200s: %s", tt_run_site_name(s->run, site), tt_status_text(st));
    }
    for (size_t i = 0; i < s->points; i++)
        s->steps[i] = tt_step_map_of(&s->map, s->steps[i]);
    number_calls(s);
    return TT_OK;
}

/* Returns a value of point i; NaN if it does not have this field. */
static double value_at(const side *s, size_t k, size_t i)
{
    if (k != RMS)
        return s->values[k][i];
    double finite =
        s->values[COUNT][i] - s->values[NAN_COUNT][i] - s->values[POSINF][i] - s->values[NEGINF][i];
    return finite > 0 ? sqrt(s->values[RMS][i] / finite) : NAN;
}

static bool is_same(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

static void put_shape(const tt_point *p, char out[TT_DIFF_SHAPE])
{
    size_t at = 1;
    out[0] = '[';
    for (int32_t d = 0; d < p->ndim && at < TT_DIFF_SHAPE - 24; d++)
        at += (size_t)snprintf(out + at, TT_DIFF_SHAPE - at, "%s%lld", d > 0 ? ", " : "",
                               (long long)p->shape[d]);
    (void)snprintf(out + at, TT_DIFF_SHAPE - at, "]");
}

/* Notes shapes and types of the first pair in which they differ.  Shapes are read where the numbers of
 * elements differ, and once. */
static void note_unlike(const side *a, size_t i, const side *b, size_t j, bool is_first,
                        tt_diff_site *site)
{
    tt_point x, y;
    bool is_unlike = a->values[COUNT][i] != b->values[COUNT][j];
    if ((!is_unlike && !is_first) || site->shapes[0][0] != '\0' || a->numbers[i] < 0 ||
        b->numbers[j] < 0 || tt_run_point(a->run, a->file, a->site, a->numbers[i], &x, NULL) < 0 ||
        tt_run_point(b->run, b->file, b->site, b->numbers[j], &y, NULL) < 0)
        return;
    bool is_shape = x.ndim >= 0 && y.ndim >= 0 &&
                    (x.ndim != y.ndim || memcmp(x.shape, y.shape, (size_t)x.ndim * sizeof *x.shape) != 0);
    if (is_shape) {
        put_shape(&x, site->shapes[0]);
        put_shape(&y, site->shapes[1]);
    }
    if (x.stats.dtype != y.stats.dtype && site->dtypes[0] < 0) {
        site->dtypes[0] = x.stats.dtype;
        site->dtypes[1] = y.stats.dtype;
    }
}

/* A pair of points with other numbers of elements: nothing else of them can be compared. */
static bool is_unlike(const side *a, size_t i, const side *b, size_t j, tt_gap *gap)
{
    double x = a->values[COUNT][i], y = b->values[COUNT][j];
    if (isnan(x) || isnan(y) || x == y)
        return false;
    *gap = (tt_gap){ .deviation = { INFINITY, 0 },
                     .field = { TT_FIELD_COUNT, TT_FIELD_COUNT },
                     .is_any = true,
                     .a = { x, NAN },
                     .b = { y, NAN } };
    return true;
}

/* Where and how much a pair of points deviates, in units of their own size, or of least if that is
 * larger. */
static void deviate(const side *a, size_t i, const side *b, size_t j, double least,
                    const tt_diff_options *options, tt_gap *gap)
{
    double rms_a = value_at(a, RMS, i), rms_b = value_at(b, RMS, j);
    double scale = fmax(least, fmax(isnan(rms_a) ? 0 : rms_a, isnan(rms_b) ? 0 : rms_b));
    *gap = (tt_gap){ .a = { NAN, NAN }, .b = { NAN, NAN } };
    gap->size = (float)(fmax(rms_a, rms_b) / scale);
    for (size_t k = 0; k < COUNT; k++) {
        double x = k == RMS ? rms_a : value_at(a, k, i), y = k == RMS ? rms_b : value_at(b, k, j);
        double deviation, larger = fmax(fabs(x), fabs(y));
        if (is_same(x, y))
            continue;
        tt_field field = fields[k].field;
        tt_gap_kind kind =
            field == TT_FIELD_MIN || field == TT_FIELD_MAX ? TT_GAP_EXTREME : TT_GAP_AVERAGE;
        bool is_count = k >= NAN_COUNT && k <= NEGINF;
        if (options->has_tolerance)
            deviation = fabs(x - y) <= options->atol + options->rtol * fabs(y) ? 0 : INFINITY;
        else if (is_count || isnan(x) || isnan(y))
            deviation = INFINITY;
        else if (field == TT_FIELD_SCALAR)
            deviation = fabs(x - y) / larger;
        else if (kind == TT_GAP_EXTREME)
            deviation = fabs(x - y) / fmax(scale * TT_NOISE_EXTREMES, larger);
        else
            deviation = fabs(x - y) / scale;
        if (isnan(deviation))
            deviation = INFINITY; /* an infinite scale */
        gap->is_any = true;
        if (!(deviation <= (double)gap->deviation[kind]) || isnan(gap->a[kind])) {
            gap->deviation[kind] = deviation < FLT_MAX ? (float)deviation : INFINITY;
            gap->field[kind] = (uint8_t)field;
            gap->a[kind] = x;
            gap->b[kind] = y;
        }
    }
}

/* ---- micro-batches ------------------------------------------------------------
 * A pipeline calls its modules once for each micro-batch, one process once for the batch. */

/* Puts `count` points together as point `to`; numbers, such as losses, are averaged. */
static void pool(side *s, size_t from, size_t count, bool are_numbers, size_t to)
{
    double sum[COLUMNS] = { 0 }, mean = 0, least = NAN, most = NAN;
    for (size_t i = from; i < from + count; i++) {
        double finite =
            s->values[COUNT][i] - s->values[NAN_COUNT][i] - s->values[POSINF][i] - s->values[NEGINF][i];
        for (size_t k = 0; k < COLUMNS; k++)
            sum[k] += s->values[k][i];
        mean += finite > 0 ? s->values[MEAN][i] * finite : 0;
        least = fmin(least, s->values[MIN][i]);
        most = fmax(most, s->values[MAX][i]);
    }
    double finite = sum[COUNT] - sum[NAN_COUNT] - sum[POSINF] - sum[NEGINF];
    mean = finite > 0 ? mean / finite : sum[MEAN];
    bool is_number = are_numbers && finite == (double)count;
    s->steps[to] = s->steps[from];
    s->calls[to] = s->calls[from];
    s->numbers[to] = -1;
    for (size_t k = 0; k < COLUMNS; k++)
        s->values[k][to] = sum[k];
    s->values[SCALAR][to] = sum[SCALAR] / (double)count;
    s->values[MEAN][to] = mean;
    s->values[RMS][to] = is_number ? mean * mean : sum[RMS];
    s->values[MIN][to] = is_number ? mean : least;
    s->values[MAX][to] = is_number ? mean : most;
    s->values[COUNT][to] = is_number ? 1 : sum[COUNT];
}

static size_t count_calls(const side *s, size_t from)
{
    size_t to = from;
    while (to < s->points && s->steps[to] == s->steps[from] &&
           (s->calls[to] >= IN_EVALUATION) == (s->calls[from] >= IN_EVALUATION))
        to++;
    return to - from;
}

/* Where the other run has one call a step, and the elements of the calls add up to it, puts them together. */
static void pool_calls(side *s, const side *other)
{
    size_t to = 0, j = 0;
    for (size_t i = 0, n; i < s->points; i += n) {
        n = count_calls(s, i);
        while (j < other->points && other->steps[j] < s->steps[i])
            j++;
        bool is_one =
            n > 1 && j < other->points && other->steps[j] == s->steps[i] && count_calls(other, j) == 1;
        double elements = 0, whole = is_one ? other->values[COUNT][j] : NAN;
        bool are_numbers = whole == 1;
        for (size_t k = i; k < i + n; k++) {
            elements += s->values[COUNT][k];
            are_numbers &= s->values[COUNT][k] == 1;
        }
        if (are_numbers || elements == whole) {
            pool(s, i, n, are_numbers, to++);
            continue;
        }
        for (size_t k = i; k < i + n; k++, to++) {
            s->steps[to] = s->steps[k];
            s->calls[to] = s->calls[k];
            s->numbers[to] = s->numbers[k];
            for (size_t c = 0; c < COLUMNS; c++)
                s->values[c][to] = s->values[c][k];
        }
    }
    s->points = to;
}

/* Returns how far a run moves a tensor from the point before to this one: the statistic that moves most. */
static double movement(const side *s, size_t i)
{
    double now = 0;
    for (size_t k = MEAN; i > 0 && k < COUNT; k++)
        now = fmax(now, fabs(value_at(s, k, i) - value_at(s, k, i - 1))); /* leaves NaN out */
    return now;
}

/* The two sides of a pair, and the weight on whose scale it is judged: no points unless it is a bias. */
typedef struct sides {
    side a, b, weight;
    double times; /* the weight's root mean square is multiplied by this */
} sides;

/* Returns the scale that the weight had at this step; 0: there is none.  *at: a cursor; *moved: how far it has moved
 * at once. */
static double weight_scale(const sides *s, int64_t step, size_t *at, double *moved)
{
    const side *weight = &s->weight;
    while (*at + 1 < weight->points && weight->steps[*at + 1] <= step)
        *moved = fmax(*moved, movement(weight, ++*at));
    double rms = weight->points > 0 ? value_at(weight, RMS, *at) : 0;
    return isfinite(rms) ? rms * s->times : 0;
}

/* Compares the points of a site: cursors, ordered by step and call. */
static tt_status compare_site(const sides *s, const tt_diff_options *options, tt_diff_pair *pair)
{
    tt_status st = TT_OK;
    const side *a = &s->a, *b = &s->b;
    size_t i = 0, j = 0, at = 0;
    float largest = 0; /* so far: equal gradients that are smaller say nothing new */
    double moved_a = 0, moved_b = 0, moved_weight = 0;
    while (st == TT_OK && (i < a->points || j < b->points)) {
        bool has_a = i < a->points, has_b = j < b->points;
        bool is_before = has_a && (!has_b || a->steps[i] < b->steps[j] ||
                                   (a->steps[i] == b->steps[j] && a->calls[i] < b->calls[j]));
        bool is_behind = has_b && (!has_a || b->steps[j] < a->steps[i] ||
                                   (a->steps[i] == b->steps[j] && b->calls[j] < a->calls[i]));
        int64_t step = is_behind ? b->steps[j] : a->steps[i];
        bool is_wanted = step >= options->first_step && step <= options->last_step;
        if (is_before || is_behind) {
            /* A step that the other run did not write is not one that it did not have. */
            const side *other = is_before ? b : a;
            bool is_tensor = is_before ? a->values[COUNT][i] > 1 : b->values[COUNT][j] > 1;
            bool is_written = tt_run_stride(other->run, other->file,
                                            is_tensor ? TT_THINNED_TENSORS : TT_THINNED_NUMBERS,
                                            tt_step_map_back(&other->map, step)) == 1;
            pair->site.unwritten += is_wanted && !is_written;
            pair->site.only_a += is_wanted && is_written && is_before;
            pair->site.only_b += is_wanted && is_written && is_behind;
        } else if (is_wanted) {
            tt_gap gap;
            bool has_stats = !isnan(a->values[COUNT][i]) && !isnan(b->values[COUNT][j]);
            if (has_stats)
                note_unlike(a, i, b, j, pair->site.points == 0, &pair->site);
            pair->site.points++;
            if (is_unlike(a, i, b, j, &gap))
                pair->site.unlike++;
            else
                deviate(a, i, b, j, weight_scale(s, step, &at, &moved_weight), options, &gap);
            gap.step = step;
            gap.call = (uint32_t)a->calls[i];
            moved_a = fmax(moved_a, movement(a, i));
            moved_b = fmax(moved_b, movement(b, j));
            /* That of the weight, or of the calmer run: what a fault moves does not count. */
            gap.moved = (float)(s->weight.points > 0 ? moved_weight : fmin(moved_a, moved_b));
            bool is_kept = gap.is_any || pair->role == TT_ROLE_BIAS ||
                           (pair->role == TT_ROLE_GRADIENT && gap.size > largest);
            largest = fmaxf(largest, gap.size);
            if (is_kept)
                st = tt_grow(&pair->gaps, &pair->cap, pair->count + 1, sizeof gap);
            if (is_kept && st == TT_OK)
                pair->gaps[pair->count++] = gap;
        }
        i += is_before || !is_behind;
        j += is_behind || !is_before;
    }
    return st;
}

static int32_t file_of_rank(const tt_run *run, int32_t rank)
{
    for (int32_t f = 0; f < run->count; f++)
        if (run->taps[f]->rank == rank)
            return f;
    return -1;
}

/* ---- the same site under another name ---------------------------------------
 * `layers` becomes `blocks`, or a model is wrapped and every name gets `module.`: the runs
 * before and after are then the ones to compare. */

enum { NAME_ROOM = 4096 + 128 }; /* a name and what it may grow by */

bool tt_rename_apply(const tt_rename *rename, bool is_back, const char *name, char *out, size_t room)
{
    const char *from = is_back ? rename->to : rename->from, *to = is_back ? rename->from : rename->to;
    const char *at = *from != '\0' ? strstr(name, from) : NULL;
    if (at == NULL)
        return false;
    int len = snprintf(out, room, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
    return len >= 0 && (size_t)len < room;
}

/* Finds a name of the other run, as it is or renamed (is_back: from new to old); -1: none. */
static int32_t find_partner(const tt_run *in, const char *name, const tt_rename *rename, bool is_back)
{
    char other[NAME_ROOM];
    int32_t site = tt_run_find(in, name);
    if (site < 0 && rename != NULL && tt_rename_apply(rename, is_back, name, other, sizeof other))
        site = tt_run_find(in, other);
    return site;
}

int32_t tt_diff_partner(const tt_run *b, const char *name, const tt_rename *rename)
{
    return find_partner(b, name, rename, false);
}

static const char *first_alone(const tt_run *a, const tt_run *b, const tt_rename *rename, int32_t *count)
{
    const char *first = NULL;
    for (int32_t i = 0; i < tt_run_site_count(a); i++) {
        const char *name = tt_run_site_name(a, i);
        if (!tt_site_is_shown(name, NULL) || find_partner(b, name, rename, false) >= 0)
            continue;
        first = first != NULL ? first : name;
        ++*count;
    }
    return first;
}

static bool is_boundary(char c)
{
    return c == '.' || c == '/' || c == '\0';
}

bool tt_diff_guess_rename(const tt_run *a, const tt_run *b, tt_rename *out)
{
    int32_t alone_a = 0, alone_b = 0;
    const char *x = first_alone(a, b, NULL, &alone_a), *y = first_alone(b, a, NULL, &alone_b);
    if (x == NULL || y == NULL || alone_a != alone_b)
        return false;
    /* What lies between the common beginning and the common end, as whole words. */
    size_t m = strlen(x), n = strlen(y), start = 0, tail = 0;
    while (x[start] != '\0' && x[start] == y[start])
        start++;
    while (start > 0 && !is_boundary(x[start - 1]))
        start--;
    while (tail < m - start && tail < n - start && x[m - 1 - tail] == y[n - 1 - tail])
        tail++;
    while (tail > 0 && !is_boundary(x[m - tail]) &&
           !(tail < m && tail < n && is_boundary(x[m - tail - 1]) && is_boundary(y[n - tail - 1])))
        tail--;
    if (start > 0 && (m - tail == start || n - tail == start))
        start--; /* one of them is empty: a word was put in behind this '/' or '.' */
    size_t from = m - tail - start, to = n - tail - start;
    if (from == 0 || to == 0 || from >= sizeof out->from || to >= sizeof out->to)
        return false;
    if (tail == 0 && tt_name_begins(x, "input/") && tt_name_begins(y, "input/"))
        return false; /* names of arguments: a mask is no position */
    tt_rename guess;
    (void)snprintf(guess.from, sizeof guess.from, "%.*s", (int)from, x + start);
    (void)snprintf(guess.to, sizeof guess.to, "%.*s", (int)to, y + start);
    int32_t left = 0;
    if (first_alone(a, b, &guess, &left) != NULL)
        return false; /* it does not explain them all */
    *out = guess;
    return true;
}

/* ---- pairs ------------------------------------------------------------------ */

typedef struct pair_list {
    tt_diff_pair *pairs; /* owned */
    size_t count, cap;
} pair_list;

/* Compares what two files (one may be -1: not there) have of a name. */
static tt_status add_pair(pair_list *all, sides *s, int32_t file_a, int32_t file_b, const char *name,
                          int32_t rank, const tt_diff_options *options, tt_error *err)
{
    tt_run *a = s->a.run, *b = s->b.run;
    int32_t site_a = tt_run_find(a, name), site_b = find_partner(b, name, options->rename, false), weight;
    tt_status st = load_side(&s->a, file_a, site_a, err);
    if (st == TT_OK)
        st = load_side(&s->b, file_b, site_b, err);
    if (st == TT_OK)
        st = tt_noise_weight(a, file_a, site_a, &weight, &s->times);
    if (st == TT_OK)
        st = load_side(&s->weight, file_a, weight, err);
    if (st < 0)
        return st;
    if (s->a.points == 0 && s->b.points == 0)
        return TT_OK;
    pool_calls(&s->a, &s->b);
    pool_calls(&s->b, &s->a);
    st = tt_grow(&all->pairs, &all->cap, all->count + 1, sizeof *all->pairs);
    if (st < 0)
        return tt_fail_plain(err, st);
    tt_diff_pair *pair = &all->pairs[all->count++];
    *pair = (tt_diff_pair){ .site = { name, rank, .first = { .step = -1 },
                                      .worst = { .step = -1, .a = NAN, .b = NAN }, .dtypes = { -1, -1 } },
                            .kind = tt_order_kind(name),
                            .place = s->a.points > 0 ? tt_order_place(a, site_a) : INT32_MAX };
    tt_noise_role(a, site_a, s->weight.points > 0, pair);
    st = compare_site(s, options, pair);
    if (st == TT_OK)
        st = tt_bits_compare(&(tt_side){ a, &s->a.map, file_a, site_a },
                             &(tt_side){ b, &s->b.map, file_b, site_b }, options, &pair->site);
    if (st == TT_OK && pair->site.points > 0)
        st = tt_noise_expect(a, file_a, site_a, b, file_b, site_b, pair);
    return st < 0 ? tt_fail(err, st, "%.200s: %s", name, tt_status_text(st)) : st;
}

/* Is it a running statistic of a batch norm?  It is made of activations, which are compared; rounding that a bias in
 * front of the norm makes steps of shows in it, and its own size says nothing about that. */
static bool is_running(const char *name)
{
    return tt_name_begins(name, "buffer/") &&
           (tt_name_ends(name, "running_mean") || tt_name_ends(name, "running_var"));
}

static int64_t points_of(const tt_run *run)
{
    int64_t points = 0;
    for (int32_t f = 0; f < run->count; f++)
        points += run->taps[f]->index.points;
    return points;
}

/* Puts the pairs into the result. */
static tt_status sum_up(const pair_list *all, int64_t first, tt_diff *diff)
{
    diff->sites = calloc(all->count + 1, sizeof *diff->sites);
    if (diff->sites == NULL)
        return TT_ENOMEM;
    diff->count = all->count;
    diff->first = first;
    for (size_t i = 0; i < all->count; i++) {
        tt_diff_site *site = &diff->sites[i];
        *site = all->pairs[i].site;
        if (site->other_bits >= 0 && site->verdict == TT_DIFF_SAME)
            site->verdict = TT_DIFF_NOISE; /* statistics do not show it */
        if (diff->sites[i].verdict > diff->verdict)
            diff->verdict = diff->sites[i].verdict;
    }
    return TT_OK;
}

tt_status tt_diff_compute(tt_run *a, tt_run *b, const tt_diff_options *options, tt_diff **out,
                          tt_error *err)
{
    tt_step_map maps[2] = { { 0 } };
    pair_list all = { 0 };
    tt_diff *diff = calloc(1, sizeof *diff);
    if (diff == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    tt_status st = tt_step_maps_make(a, b, maps, diff, err);
    sides both = { .a = { .run = a, .map = maps[0] },
                   .b = { .run = b, .map = maps[1] },
                   .weight = { .run = a, .map = maps[0] } };
    int64_t done = 0, total = points_of(a) + points_of(b), first = -1;
    for (int pass = 0; pass < 2; pass++) { /* what a has, then what b alone has */
        tt_run *run = pass == 0 ? a : b;
        for (int32_t f = 0; st == TT_OK && f < run->count; f++) {
            int32_t rank = run->taps[f]->rank, other = file_of_rank(pass == 0 ? b : a, rank);
            for (int32_t s = 0; st == TT_OK && s < tt_run_site_count(run); s++) {
                const char *name = tt_run_site_name(run, s);
                if (!tt_site_is_shown(name, options->only) ||
                    (options->only == NULL && is_running(name)) ||
                    (options->ignore != NULL && tt_glob_match(options->ignore, name)))
                    continue;
                int32_t in_a = pass == 1 ? find_partner(a, name, options->rename, true) : -1;
                if (other >= 0 && in_a >= 0)
                    continue; /* the first pass had it */
                st = add_pair(&all, &both, pass == 0 ? f : other, pass == 0 ? other : f, name, rank,
                              options, err);
                done += (int64_t)(both.a.points + both.b.points);
                if (options->progress != NULL)
                    options->progress(done, total);
            }
        }
    }
    if (st == TT_OK && all.count == 0 && options->only != NULL)
        st = tt_fail(err, TT_EMISMATCH, "no site matches '%.150s'", options->only);
    if (st == TT_OK && (tt_noise_judge(all.pairs, all.count, options->has_tolerance, &first) < 0 ||
                        sum_up(&all, first, diff) < 0))
        st = tt_fail_plain(err, TT_ENOMEM);
    if (st == TT_OK)
        st = tt_fail_plain(err,
                           tt_settings_compare(a, b, options->ignore, options->rename, &diff->answers));
    if (st == TT_OK)
        st = tt_premises_add(a, b, maps, options->rename, diff, err);
    if (st == TT_OK)
        st = tt_fail_plain(err, tt_diff_conclude(a, b, options, diff));
    for (size_t i = 0; i < all.count; i++)
        free(all.pairs[i].gaps);
    free(all.pairs);
    free(both.a.steps);
    free(both.b.steps);
    free(both.weight.steps);
    free(maps[0].steps);
    free(maps[1].steps);
    if (st == TT_OK)
        *out = diff;
    else
        tt_diff_free(diff);
    return st;
}

const char *tt_verdict_text(tt_verdict verdict)
{
    static const char *const texts[] = { "identical", "noise", "differs" };
    return texts[verdict];
}

const char *tt_diff_site_text(const tt_diff_site *site)
{
    return site->points > 0 || site->only_a + site->only_b == 0 ? tt_verdict_text(site->verdict)
           : site->only_a > 0                                   ? "only in a"
                                                                : "only in b";
}

void tt_diff_free(tt_diff *diff)
{
    if (diff == NULL)
        return;
    tt_answers_free(&diff->answers);
    free(diff->sites);
    free(diff);
}
