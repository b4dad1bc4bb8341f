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
#include "store/run.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tt_field shown_fields[] = { TT_FIELD_SCALAR, TT_FIELD_NAN, TT_FIELD_POSINF, TT_FIELD_NEGINF,
                                         TT_FIELD_MEAN,   TT_FIELD_RMS, TT_FIELD_MIN,    TT_FIELD_MAX };
enum { FIELDS = sizeof shown_fields / sizeof *shown_fields };

/* One side of a pair: columns of one site, kept between sites to save malloc. */
typedef struct side {
    tt_run *run;
    int32_t file, site;
    size_t points, cap;
    int64_t *steps; /* owned */
    double *calls;  /* owned, with the values behind it */
    double *values[FIELDS];
    size_t counts[FIELDS];
} side;

static void free_side(side *s)
{
    free(s->steps);
    free(s->calls);
}

/* The columns of the file that the fields are made of; rms is made of SUMSQ. */
static const tt_column columns[FIELDS] = { TT_COLUMN_SCALAR, TT_COLUMN_NAN,  TT_COLUMN_POSINF,
                                           TT_COLUMN_NEGINF, TT_COLUMN_MEAN, TT_COLUMN_SUMSQ,
                                           TT_COLUMN_MIN,    TT_COLUMN_MAX };
enum { RMS = 5 };

/* Root mean square of the elements that are finite, from the columns read. */
static void make_rms(side *s, size_t from, const uint64_t *counts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = from + i;
        double finite =
            (double)(int64_t)counts[i] - s->values[1][at] - s->values[2][at] - s->values[3][at];
        s->values[RMS][at] = finite > 0 ? sqrt(s->values[RMS][at] / finite) : NAN;
    }
}

/* Appends the points of a chunk, read once for all fields. */
static tt_status load_chunk(side *s, const tt_index_site *row, const tt_index_chunk *entry)
{
    tt_chunk chunk;
    tt_status st = tt_run_chunk(s->run, s->run->taps[s->file], row, entry, &chunk);
    size_t n = entry->n;
    if (st == TT_OK)
        st = tt_run_grow_cells(s->run, n * 2);
    if (st < 0)
        return st;
    uint64_t *products = s->run->cells, *cells = products + n;
    st = tt_chunk_column(&chunk, TT_COLUMN_PRODUCTS, products, (uint32_t)n);
    if (st == TT_OK)
        st = tt_chunk_column(&chunk, TT_COLUMN_STEP, (uint64_t *)(void *)(s->steps + s->points),
                             (uint32_t)n);
    if (st == TT_OK)
        st = tt_chunk_column(&chunk, TT_COLUMN_CALL, cells, (uint32_t)n);
    for (size_t i = 0; st == TT_OK && i < n; i++)
        s->calls[s->points + i] = (double)(int64_t)cells[i];
    for (size_t k = 0; st == TT_OK && k < FIELDS; k++) {
        uint32_t entries = tt_chunk_entries(products, (uint32_t)n, tt_column_kinds[columns[k]].product);
        bool is_int = tt_column_kinds[columns[k]].type == TT_COLUMN_INT;
        double *to = s->values[k] + s->counts[k];
        if (entries > 0)
            st = tt_chunk_column(&chunk, columns[k], is_int ? cells : (uint64_t *)(void *)to, entries);
        for (size_t i = 0; st == TT_OK && is_int && i < entries; i++)
            to[i] = (double)(int64_t)cells[i];
        s->counts[k] += st == TT_OK ? entries : 0;
    }
    size_t with_stats = tt_chunk_entries(products, (uint32_t)n, TT_PRODUCT_STATS);
    if (st == TT_OK && with_stats > 0)
        st = tt_chunk_column(&chunk, TT_COLUMN_COUNT, cells, (uint32_t)with_stats);
    if (st == TT_OK)
        make_rms(s, s->counts[RMS] - with_stats, cells, with_stats);
    s->points += st == TT_OK ? n : 0;
    return st;
}

static tt_status load_side(side *s, int32_t file, int32_t site, tt_error *err)
{
    size_t n = file >= 0 && site >= 0 ? tt_run_points(s->run, file, site) : 0;
    s->file = file;
    s->site = site;
    s->points = 0;
    memset(s->counts, 0, sizeof s->counts);
    if (n == 0)
        return TT_OK;
    if (n > s->cap) {
        free_side(s);
        s->cap = n;
        s->steps = calloc(n, sizeof *s->steps);
        s->calls = calloc(n * (FIELDS + 1), sizeof *s->calls);
        if (s->steps == NULL || s->calls == NULL)
            return tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
        for (size_t k = 0; k < FIELDS; k++)
            s->values[k] = s->calls + n * (k + 1);
    }
    const tt_index_site *row = tt_run_row(s->run, file, site);
    for (uint32_t k = 0; k < row->count; k++) {
        tt_status st =
            row->chunks[k].n <= n - s->points ? load_chunk(s, row, &row->chunks[k]) : TT_EFORMAT;
        if (st < 0)
            return tt_fail(err, st, "%.200s: %s", tt_run_site_name(s->run, site), tt_status_text(st));
    }
    return TT_OK;
}

/* A value of point i; NaN where the points of the site have not all this field. */
static double value_at(const side *s, size_t k, size_t i)
{
    return s->counts[k] == s->points ? s->values[k][i] : NAN;
}

static bool is_same(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

static bool is_extreme(tt_field field)
{
    return field == TT_FIELD_MIN || field == TT_FIELD_MAX;
}

/* Where and how much a pair of points deviates. */
static void deviate(const side *a, size_t i, const side *b, size_t j, const tt_diff_options *options,
                    tt_gap *gap)
{
    double rms_a = value_at(a, RMS, i), rms_b = value_at(b, RMS, j);
    double scale = fmax(isnan(rms_a) ? 0 : rms_a, isnan(rms_b) ? 0 : rms_b);
    *gap = (tt_gap){ .a = { NAN, NAN }, .b = { NAN, NAN } };
    for (size_t k = 0; k < FIELDS; k++) {
        double x = value_at(a, k, i), y = value_at(b, k, j), deviation;
        if (is_same(x, y))
            continue;
        tt_field field = shown_fields[k];
        tt_gap_kind kind = is_extreme(field) ? TT_GAP_EXTREME : TT_GAP_AVERAGE;
        bool is_count = field == TT_FIELD_NAN || field == TT_FIELD_POSINF || field == TT_FIELD_NEGINF;
        if (options->has_tolerance)
            deviation = fabs(x - y) <= options->atol + options->rtol * fabs(y) ? 0 : INFINITY;
        else if (is_count || isnan(x) || isnan(y))
            deviation = INFINITY;
        else if (field == TT_FIELD_SCALAR)
            deviation = fabs(x - y) / fmax(fabs(x), fabs(y));
        else
            deviation = fabs(x - y) / (kind == TT_GAP_EXTREME ? scale * TT_NOISE_EXTREMES : scale);
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

/* Compares the points of a site: two cursors, ordered by step and call. */
static tt_status compare_site(side *a, side *b, const tt_diff_options *options, tt_diff_pair *pair)
{
    tt_status st = TT_OK;
    size_t i = 0, j = 0;
    while (st == TT_OK && (i < a->points || j < b->points)) {
        bool has_a = i < a->points, has_b = j < b->points;
        bool is_before = has_a && (!has_b || a->steps[i] < b->steps[j] ||
                                   (a->steps[i] == b->steps[j] && a->calls[i] < b->calls[j]));
        bool is_behind = has_b && (!has_a || b->steps[j] < a->steps[i] ||
                                   (a->steps[i] == b->steps[j] && b->calls[j] < a->calls[i]));
        int64_t step = is_behind ? b->steps[j] : a->steps[i];
        bool is_wanted = step >= options->first_step && step <= options->last_step;
        if (is_before || is_behind) {
            pair->site.only_a += is_wanted && is_before;
            pair->site.only_b += is_wanted && is_behind;
        } else if (is_wanted) {
            tt_gap gap;
            pair->site.points++;
            deviate(a, i, b, j, options, &gap);
            gap.step = step;
            gap.call = (uint32_t)a->calls[i];
            if (gap.is_any)
                st = tt_grow(&pair->gaps, &pair->cap, pair->count + 1, sizeof gap);
            if (gap.is_any && st == TT_OK)
                pair->gaps[pair->count++] = gap;
        }
        i += is_before || !is_behind;
        j += is_behind || !is_before;
    }
    return st;
}

static int32_t file_of_rank(const tt_run *run, int32_t rank)
{
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_run_file about;
        if (tt_run_file_get(run, f, &about) == TT_OK && about.rank == rank)
            return f;
    }
    return -1;
}

static int32_t rank_of(const tt_run *run, int32_t file)
{
    tt_run_file about;
    return tt_run_file_get(run, file, &about) == TT_OK ? about.rank : -1;
}

/* ---- the same site under another name ---------------------------------------
 * `layers` becomes `blocks`, or a model is wrapped and every name gets `module.`: the runs
 * before and after are then the ones to compare. */

enum { NAME_ROOM = 4096 + 128 }; /* a name and what it may grow by */

/* Replaces the first occurrence (is_back: of the new by the old); false: there is none. */
static bool apply_rename(const tt_rename *rename, bool is_back, const char *name, char *out, size_t room)
{
    const char *from = is_back ? rename->to : rename->from, *to = is_back ? rename->from : rename->to;
    const char *at = *from != '\0' ? strstr(name, from) : NULL;
    if (at == NULL)
        return false;
    int len = snprintf(out, room, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
    return len >= 0 && (size_t)len < room;
}

/* Whether a has a partner in b, by its own name or the other. */
static bool has_partner(const tt_run *b, const char *name, const tt_rename *rename)
{
    char other[NAME_ROOM];
    return tt_run_find(b, name) >= 0 ||
           (rename != NULL && apply_rename(rename, false, name, other, sizeof other) &&
            tt_run_find(b, other) >= 0);
}

static const char *first_alone(const tt_run *a, const tt_run *b, const tt_rename *rename, int32_t *count)
{
    const char *first = NULL;
    for (int32_t i = 0; i < tt_run_site_count(a); i++) {
        const char *name = tt_run_site_name(a, i);
        if (!tt_site_is_shown(name, NULL) || has_partner(b, name, rename))
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

/* The number in b of what a calls `name` (is_back: the other way); -1: none. */
static int32_t partner(const tt_run *a, const tt_run *b, const char *name, const tt_rename *rename,
                       bool is_back)
{
    char other[NAME_ROOM];
    const tt_run *in = is_back ? a : b;
    int32_t site = tt_run_find(in, name);
    if (site < 0 && rename != NULL && apply_rename(rename, is_back, name, other, sizeof other))
        site = tt_run_find(in, other);
    return site;
}

/* Compares what two files (one may be -1: not there) have of a name. */
static tt_status add_pair(tt_diff *diff, side *a, side *b, int32_t file_a, int32_t file_b,
                          const char *name, int32_t rank, const tt_diff_options *options, tt_error *err)
{
    int32_t site_a = tt_run_find(a->run, name),
            site_b = partner(a->run, b->run, name, options->rename, false);
    tt_status st = load_side(a, file_a, site_a, err);
    if (st == TT_OK)
        st = load_side(b, file_b, site_b, err);
    if (st < 0)
        return st;
    if (a->points == 0 && b->points == 0)
        return TT_OK;
    st = tt_grow(&diff->pairs, &diff->cap, diff->count + 1, sizeof *diff->pairs);
    if (st < 0)
        return tt_fail(err, st, "%s", tt_status_text(st));
    tt_diff_pair *pair = &diff->pairs[diff->count++];
    *pair = (tt_diff_pair){
        .site = { .name = name, .rank = rank, .first_step = -1, .worst_step = -1, .a = NAN, .b = NAN },
        .kind = tt_order_kind(name),
        .place = a->points > 0 ? tt_order_place(a->run, site_a) : INT32_MAX
    };
    st = compare_site(a, b, options, pair);
    if (st == TT_OK && pair->count > 0)
        st = tt_noise_base(a->run, file_a, site_a, b->run, file_b, site_b, &pair->base, &pair->elements);
    return st < 0 ? tt_fail(err, st, "%.200s: %s", name, tt_status_text(st)) : st;
}

static int64_t points_of(const tt_run *run)
{
    int64_t points = 0;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_run_file about;
        if (tt_run_file_get(run, f, &about) == TT_OK)
            points += about.points;
    }
    return points;
}

tt_status tt_diff_compute(tt_run *a, tt_run *b, const tt_diff_options *options, tt_diff **out,
                          tt_error *err)
{
    tt_diff *diff = calloc(1, sizeof *diff);
    if (diff == NULL)
        return tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    side left = { .run = a }, right = { .run = b };
    tt_status st = TT_OK;
    int64_t done = 0, total = points_of(a) + points_of(b);
    for (int pass = 0; pass < 2; pass++) { /* what a has, then what b alone has */
        tt_run *run = pass == 0 ? a : b;
        for (int32_t f = 0; st == TT_OK && f < tt_run_file_count(run); f++) {
            int32_t rank = rank_of(run, f), other = file_of_rank(pass == 0 ? b : a, rank);
            for (int32_t s = 0; st == TT_OK && s < tt_run_site_count(run); s++) {
                const char *name = tt_run_site_name(run, s);
                if (!tt_site_is_shown(name, options->only))
                    continue;
                int32_t in_a = pass == 1 ? partner(a, b, name, options->rename, true) : -1;
                if (in_a >= 0 && other >= 0 && tt_run_points(a, other, in_a) > 0)
                    continue;
                st = add_pair(diff, &left, &right, pass == 0 ? f : other, pass == 0 ? other : f, name,
                              rank, options, err);
                done += (int64_t)(left.points + right.points);
                if (options->progress != NULL)
                    options->progress(options->context, done, total);
            }
        }
    }
    if (st == TT_OK && diff->count == 0 && options->only != NULL)
        st = tt_fail(err, TT_EMISMATCH, "no site matches '%.150s'", options->only);
    if (st == TT_OK && tt_noise_judge(diff, options->has_tolerance) < 0)
        st = tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    free_side(&left);
    free_side(&right);
    if (st == TT_OK)
        *out = diff;
    else
        tt_diff_free(diff);
    return st;
}

void tt_diff_free(tt_diff *diff)
{
    if (diff == NULL)
        return;
    for (size_t i = 0; i < diff->count; i++)
        free(diff->pairs[i].gaps);
    free(diff->pairs);
    free(diff);
}

tt_verdict tt_diff_verdict(const tt_diff *diff)
{
    tt_verdict worst = TT_DIFF_SAME;
    for (size_t i = 0; i < diff->count; i++)
        if (diff->pairs[i].site.verdict > worst)
            worst = diff->pairs[i].site.verdict;
    return worst;
}

size_t tt_diff_count(const tt_diff *diff)
{
    return diff->count;
}

const tt_diff_site *tt_diff_at(const tt_diff *diff, size_t i)
{
    return i < diff->count ? &diff->pairs[i].site : NULL;
}

int64_t tt_diff_first(const tt_diff *diff)
{
    return diff->first;
}
