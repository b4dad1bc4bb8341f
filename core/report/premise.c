/* premise.c -- what differs between two runs before any number is compared.
 *
 * Exists because a layer is blamed too easily: runs that were fed other batches, have another batch size or
 * compute in another type differ everywhere, and the first layer is only where that shows first.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/answer.h"
#include "report/diff.h"
#include "report/settings.h"
#include "store/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE "learning_rate"
#define BATCH "tensortap/batch/"

/* kind: "steps", "inputs", "shapes" or "types"; site NULL: none; step -1: all. */
static void add(tt_diff *diff, const char *kind, const char *site, int64_t step, const char *sentence)
{
    tt_answer premise = TT_ANSWER(PREMISE, WARNING, .rule = kind, .sentence = sentence);
    if (site != NULL)
        tt_answers_set_site(&diff->answers, &premise, site, -1);
    premise.first_step = step;
    tt_answers_put(&diff->answers, &premise);
}

/* ---- steps ---------------------------------------------------------------- */

/* Counts the optimizers of a run: each logs its learning rates, the second as "Adam2:learning_rate". */
static int32_t count_optimizers(const tt_run *run)
{
    int32_t count = 0;
    for (int32_t site = 0; site < tt_run_site_count(run); site++) {
        const char *name = tt_run_site_name(run, site), *colon = strchr(name, ':');
        const char *rest = colon != NULL ? colon + 1 : name;
        count += strcmp(rest, RATE) == 0 || strcmp(rest, RATE "/0") == 0;
    }
    return count;
}

/* The steps in which the first optimizer stepped. */
static tt_status read_steps(tt_run *run, tt_step_map *out, tt_error *err)
{
    int32_t site = tt_run_find(run, RATE);
    if (site < 0)
        site = tt_run_find(run, RATE "/0");
    size_t cap = tt_run_points(run, 0, site);
    double *rates = calloc(cap + 1, sizeof *rates);
    out->steps = calloc(cap + 1, sizeof *out->steps);
    tt_status st = rates == NULL || out->steps == NULL ? tt_fail_plain(err, TT_ENOMEM) : TT_OK;
    if (st == TT_OK && cap > 0)
        st = tt_run_series(run, 0, site, TT_FIELD_SCALAR, out->steps, rates, cap, &out->count, err);
    free(rates);
    return st;
}

/* How many steps the first optimizer had done before the run; 0: none, or that is not known. */
static tt_status read_before(const tt_run *run, int64_t *out)
{
    tt_settings settings;
    tt_status st = tt_settings_read(run, &settings);
    const char *text = st == TT_OK ? tt_settings_find(&settings, TT_STEPS_BEFORE) : NULL;
    long long before = text != NULL ? strtoll(text, NULL, 10) : 0;
    *out = before > 0 && before < INT32_MAX ? before : 0;
    tt_settings_free(&settings);
    return st;
}

/* Maps all steps by the first optimizer, if the runs have different numbers of them. */
static tt_status map_optimizers(tt_run *a, tt_run *b, tt_step_map out[2], tt_diff *diff, tt_error *err)
{
    int32_t in_a = count_optimizers(a), in_b = count_optimizers(b);
    if (in_a == in_b || in_a == 0 || in_b == 0)
        return TT_OK;
    tt_status st = read_steps(a, &out[0], err);
    if (st == TT_OK)
        st = read_steps(b, &out[1], err);
    if (st < 0)
        return st;
    add(diff, "steps", NULL, -1,
        tt_answers_text(
            &diff->answers,
            "the first run has %d optimizer%s and the second %d: steps are paired by those of "
            "the first optimizer",
            (int)in_a, in_a == 1 ? "" : "s", (int)in_b));
    return TT_OK;
}

tt_status tt_step_maps_make(tt_run *a, tt_run *b, tt_step_map out[2], tt_diff *diff, tt_error *err)
{
    tt_status st = map_optimizers(a, b, out, diff, err);
    if (st == TT_OK)
        st = tt_fail_plain(err, read_before(a, &out[0].before));
    if (st == TT_OK)
        st = tt_fail_plain(err, read_before(b, &out[1].before));
    int64_t more = out[1].before - out[0].before;
    if (st < 0 || more == 0) {
        out[0].before = out[1].before = 0;
        return st;
    }
    const char *later = more > 0 ? "second" : "first";
    more = more > 0 ? more : -more;
    bool is_reached = more <= tt_run_totals(out[1].before > out[0].before ? a : b).last_step;
    int64_t least = is_reached ? out[0].before < out[1].before ? out[0].before : out[1].before : 0;
    for (int k = 0; k < 2; k++)
        out[k].before = is_reached ? out[k].before - least : 0;
    add(diff, "steps", NULL, -1,
        tt_answers_text(&diff->answers,
                        is_reached
                            ? "the %s run goes on after %" PRId64
                              " more steps of the optimizer: its step 0 is step %" PRId64 " here"
                            : "the %s run goes on after %" PRId64
                              " more steps of the optimizer, and the other is shorter than %" PRId64
                              ": steps are paired by number",
                        later, more, more));
    return TT_OK;
}

int64_t tt_step_map_of(const tt_step_map *map, int64_t step)
{
    size_t low = 0, high = map->count;
    if (map->steps == NULL)
        return step + map->before;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (map->steps[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)low + map->before;
}

int64_t tt_step_map_back(const tt_step_map *map, int64_t count)
{
    int64_t at = count - map->before;
    if (map->steps == NULL || at < 0 || map->count == 0)
        return at;
    return map->steps[(size_t)at < map->count ? (size_t)at : map->count - 1];
}

/* ---- inputs --------------------------------------------------------------- */

typedef struct batch {
    int64_t step;
    uint64_t low, high; /* digest */
} batch;

typedef struct batches {
    batch *all; /* owned */
    size_t count, cap;
} batches;

/* Reads the digests of what a model was called with. */
static tt_status read_batches(tt_run *run, int32_t file, int32_t site, const tt_step_map *map,
                              batches *out, tt_error *err)
{
    enum { PRODUCTS, STEP, LOW, HIGH, COLUMNS };
    static const tt_column columns[] = { TT_COLUMN_PRODUCTS, TT_COLUMN_STEP, TT_COLUMN_DIGEST_LO,
                                         TT_COLUMN_DIGEST_HI };
    const tt_index_site *row = tt_run_row(run, file, site);
    tt_status st = TT_OK;
    out->count = 0;
    for (uint32_t k = 0; row != NULL && st == TT_OK && k < row->count; k++) {
        const tt_index_chunk *entry = &row->chunks[k];
        const uint64_t *cells[COLUMNS];
        st = tt_run_columns(run, run->taps[file], row, entry, columns, COLUMNS, cells);
        if (st == TT_OK)
            st = tt_grow(&out->all, &out->cap, out->count + entry->n, sizeof *out->all);
        for (uint32_t i = 0; st == TT_OK && i < entry->n; i++)
            if (cells[PRODUCTS][i] & TT_PRODUCT_DIGEST) {
                int64_t step = (int64_t)cells[STEP][i];
                out->all[out->count++] =
                    (batch){ tt_step_map_of(map, step), cells[LOW][i], cells[HIGH][i] };
            }
    }
    return st < 0 ? tt_fail(err, st, "%.200s: %s", tt_run_site_name(run, site), tt_status_text(st)) : st;
}

static bool is_equal(const batch *a, const batch *b)
{
    return a->low == b->low && a->high == b->high;
}

static int by_digest(const void *a, const void *b)
{
    const batch *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return (x->high > y->high) - (x->high < y->high);
}

/* Are they the same batches, in whatever order?  Sorts them. */
static bool are_same(batches *a, batches *b)
{
    if (a->count != b->count)
        return false;
    qsort(a->all, a->count, sizeof *a->all, by_digest);
    qsort(b->all, b->count, sizeof *b->all, by_digest);
    for (size_t i = 0; i < a->count; i++)
        if (!is_equal(&a->all[i], &b->all[i]))
            return false;
    return true;
}

typedef struct comparison {
    int64_t first, differing, compared;
} comparison;

static comparison compare(const batches *a, const batches *b)
{
    comparison found = { .first = -1 };
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const batch *x = &a->all[i], *y = &b->all[j];
        i += x->step <= y->step;
        j += y->step <= x->step;
        if (x->step != y->step)
            continue;
        found.compared++;
        found.differing += !is_equal(x, y);
        if (found.first < 0 && !is_equal(x, y))
            found.first = x->step;
    }
    return found;
}

static int32_t file_of(const tt_run *run, int32_t rank)
{
    int32_t f = run->count - 1;
    while (f >= 0 && run->taps[f]->rank != rank)
        f--;
    return f;
}

/* How many ranks were fed; 1 of a run that is not joined. */
static int32_t ranks_of(const tt_run *run, int32_t site)
{
    const tt_joined_site *joined = tt_run_joined(run, site);
    return joined != NULL ? joined->ranks : 1;
}

/* Are the digests of both runs of the same elements?  Those of earlier versions are of others. */
static tt_status ask_digests(const tt_run *a, const tt_run *b, bool *are_alike)
{
    tt_settings in_a, in_b = { 0 };
    tt_status st = tt_settings_read(a, &in_a);
    if (st == TT_OK)
        st = tt_settings_read(b, &in_b);
    const char *x = st == TT_OK ? tt_settings_find(&in_a, TT_BATCH_DIGEST) : NULL;
    const char *y = st == TT_OK ? tt_settings_find(&in_b, TT_BATCH_DIGEST) : NULL;
    *are_alike = x == y || (x != NULL && y != NULL && strcmp(x, y) == 0);
    tt_settings_free(&in_a);
    tt_settings_free(&in_b);
    return st;
}

/* Compares what the models of both runs were fed, for the first rank and model where it differs. */
static tt_status add_inputs(tt_run *a, tt_run *b, const tt_step_map maps[2], const tt_rename *rename,
                            tt_diff *diff, tt_error *err)
{
    batches x = { 0 }, y = { 0 };
    bool is_found = false, are_alike = true;
    tt_status st = tt_fail_plain(err, ask_digests(a, b, &are_alike));
    for (int32_t file = 0; are_alike && st == TT_OK && !is_found && file < a->count; file++) {
        int32_t other = file_of(b, a->taps[file]->rank);
        for (int32_t site = 0; st == TT_OK && !is_found && site < tt_run_site_count(a); site++) {
            const char *name = tt_run_site_name(a, site);
            int32_t partner = tt_name_begins(name, BATCH) ? tt_diff_partner(b, name, rename) : -1;
            if (other < 0 || partner < 0 || ranks_of(a, site) != ranks_of(b, partner))
                continue; /* a rank is fed a part of the batch */
            st = read_batches(a, file, site, &maps[0], &x, err);
            if (st == TT_OK)
                st = read_batches(b, other, partner, &maps[1], &y, err);
            comparison found = st == TT_OK ? compare(&x, &y) : (comparison){ .first = -1 };
            is_found = found.first >= 0;
            if (!is_found)
                continue;
            const char *sentence =
                tt_answers_text(&diff->answers,
                                "the runs were fed different inputs from step %" PRId64 " on, in %" PRId64
                                " of %" PRId64 " compared steps%s",
                                found.first, found.differing, found.compared,
                                are_same(&x, &y) ? "; they are the same batches in another order" : "");
            add(diff, "inputs", NULL, found.first, sentence);
        }
    }
    free(x.all);
    free(y.all);
    return st;
}

/* ---- shapes and types -------------------------------------------------------- */

static void add_shapes(tt_diff *diff)
{
    const tt_diff_site *first = NULL;
    int64_t sites = 0, points = 0;
    for (size_t i = 0; i < diff->count; i++) {
        const tt_diff_site *s = &diff->sites[i];
        if (s->shapes[0][0] == '\0')
            continue;
        first = first != NULL ? first : s;
        sites++;
        points += s->unlike;
    }
    if (first == NULL)
        return;
    const char *left_out =
        points > 0 ? tt_answers_text(&diff->answers,
                                     "; the numbers of %" PRId64
                                     " points with other counts of elements were not compared",
                                     points)
                   : "";
    add(diff, "shapes", first->name, -1,
        tt_answers_text(&diff->answers, "shapes differ in %" PRId64 " site%s: %s is %s against %s%s",
                        sites, sites == 1 ? "" : "s", first->name, first->shapes[0], first->shapes[1],
                        left_out));
}

static void add_types(tt_diff *diff)
{
    const tt_diff_site *first = NULL;
    int64_t sites = 0;
    for (size_t i = 0; i < diff->count; i++) {
        const tt_diff_site *s = &diff->sites[i];
        if (s->dtypes[0] < 0)
            continue;
        first = first != NULL ? first : s;
        sites++;
    }
    if (first == NULL)
        return;
    add(diff, "types", first->name, -1,
        tt_answers_text(&diff->answers, "types differ in %" PRId64 " site%s: %s is %s against %s", sites,
                        sites == 1 ? "" : "s", first->name, tt_dtype_name((tt_dtype)first->dtypes[0]),
                        tt_dtype_name((tt_dtype)first->dtypes[1])));
}

tt_status tt_premises_add(tt_run *a, tt_run *b, const tt_step_map maps[2], const tt_rename *rename,
                          tt_diff *diff, tt_error *err)
{
    tt_status st = add_inputs(a, b, maps, rename, diff, err);
    if (st == TT_OK) {
        add_shapes(diff);
        add_types(diff);
    }
    return st;
}
