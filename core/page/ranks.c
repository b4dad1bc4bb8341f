/* ranks.c -- one site on every rank, over the steps, and where the ranks stand in their mesh.
 *
 * Exists because the rest of a page shows the whole job: what one rank does alone is seen here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"
#include "store/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 1 << 15, BINS_LEAST = 16, BINS_MOST = 256 };

/* The mesh of a file with the most dimensions; NULL: none. */
static const tt_mesh *widest_mesh(const tt_tap *tap)
{
    const tt_mesh *widest = NULL;
    for (int32_t i = 0; i < tap->mesh_count; i++)
        if (widest == NULL || tap->meshes[i].mesh.ndim > widest->ndim)
            widest = &tap->meshes[i].mesh;
    return widest;
}

void tt_page_put_mesh(tt_json *json, const tt_run *run)
{
    const tt_mesh *first = widest_mesh(run->taps[0]);
    if (first == NULL)
        return;
    tt_json_open(json, "mesh", '{');
    tt_json_open(json, "names", '[');
    for (int32_t d = 0; d < first->ndim; d++)
        tt_json_text(json, NULL, first->name[d]);
    tt_json_close(json);
    tt_json_open(json, "at", '['); /* the coordinate of each file */
    for (int32_t f = 0; f < run->count; f++) {
        const tt_mesh *mesh = widest_mesh(run->taps[f]);
        int64_t at[TT_MESH_DIMS] = { 0 };
        bool is_alike = mesh != NULL && mesh->ndim == first->ndim;
        for (int32_t d = 0; is_alike && d < mesh->ndim; d++)
            at[d] = mesh->coordinate[d];
        tt_json_ints(json, NULL, at, is_alike ? first->ndim : 0);
    }
    tt_json_close(json);
    tt_json_close(json);
}

/* The steps of all ranks, in bins of as many steps each. */
typedef struct axis {
    int64_t first, last, width;
    size_t bins;
} axis;

static axis make_axis(const tt_run *run)
{
    const tt_totals totals = tt_run_totals(run);
    axis a = { totals.first_step, totals.last_step, 1, 0 };
    uint64_t span = a.last >= a.first ? (uint64_t)a.last - (uint64_t)a.first : 0;
    size_t most = CELLS / (size_t)run->count;
    most = most < BINS_LEAST ? BINS_LEAST : most > BINS_MOST ? BINS_MOST : most;
    if (span >= INT64_MAX / 2)
        return a; /* steps that nobody counted */
    a.width = (int64_t)(span / most + 1);
    a.bins = (size_t)(span / (uint64_t)a.width) + 1;
    return a;
}

/* A rank's values in bins; the largest of each counts. */
typedef struct row {
    double *values; /* owned; NaN: none */
    char *bad;      /* owned; 'n' NaN, 'i' Inf, 0 neither */
    int64_t *steps; /* owned; of its points */
    double *points; /* owned */
    size_t cap, points_cap;
} row;

static tt_status add_field(tt_run *run, int32_t file, int32_t site, tt_field field, const axis *a, row *r)
{
    size_t count = 0, cap = tt_run_points(run, file, site);
    tt_status st = tt_grow(&r->steps, &r->cap, cap + 1, sizeof *r->steps);
    if (st == TT_OK)
        st = tt_grow(&r->points, &r->points_cap, cap + 1, sizeof *r->points);
    if (st == TT_OK)
        st = tt_run_series(run, file, site, field, r->steps, r->points, cap, &count, NULL);
    if (st == TT_EFORMAT) /* damaged: not shown */
        return TT_OK;
    bool is_nan = field == TT_FIELD_NAN,
         is_count = is_nan || field == TT_FIELD_POSINF || field == TT_FIELD_NEGINF;
    for (size_t i = 0; st == TT_OK && i < count; i++) {
        double x = r->points[i];
        if (r->steps[i] < a->first || r->steps[i] > a->last)
            continue;
        size_t bin = (size_t)((r->steps[i] - a->first) / a->width);
        if (is_count ? x > 0 : !isfinite(x))
            r->bad[bin] = is_nan || isnan(x) ? 'n' : r->bad[bin] == 'n' ? 'n' : 'i';
        else if (!is_count)
            r->values[bin] = isnan(r->values[bin]) || fabs(x) > fabs(r->values[bin]) ? x : r->values[bin];
    }
    return st;
}

static tt_status put_row(tt_json *json, tt_run *run, int32_t file, int32_t site, tt_field field,
                         const axis *a, row *r)
{
    for (size_t i = 0; i < a->bins; i++) {
        r->values[i] = NAN;
        r->bad[i] = '\0';
    }
    const tt_index_site *of = tt_run_row(run, file, site);
    tt_status st = of != NULL && of->stored > 0 ? add_field(run, file, site, field, a, r) : TT_OK;
    static const tt_field counts[] = { TT_FIELD_NAN, TT_FIELD_POSINF, TT_FIELD_NEGINF };
    for (size_t k = 0; st == TT_OK && of != NULL && of->nonfinite >= 0 && k < 3; k++)
        st = add_field(run, file, site, counts[k], a, r);
    tt_buf text = { 0 };
    for (size_t i = 0; i < a->bins; i++) {
        (void)tt_buf_append(&text, " ", i > 0);
        if (r->bad[i] != '\0')
            (void)tt_buf_append(&text, &r->bad[i], 1);
        else if (!isnan(r->values[i]))
            (void)tt_buf_printf(&text, "%.4g", r->values[i]);
    }
    tt_json_text(json, NULL, text.len > 0 ? text.data : "");
    st = st == TT_OK ? text.st : st;
    tt_buf_free(&text);
    return st;
}

tt_status tt_page_put_ranks(tt_page *page, size_t number, int32_t site, tt_buf *out, tt_error *err)
{
    tt_run *run = tt_run_parts(page->sources[number].run);
    if (site < 0 || site >= tt_run_site_count(run))
        return tt_fail(err, TT_EINVAL, "no site of that number");
    tt_latest latest = { .file = -1 };
    tt_json json = { .out = out, .is_compact = true };
    const axis a = make_axis(run);
    row r = { .values = calloc(a.bins + 1, sizeof *r.values), .bad = calloc(a.bins + 1, 1) };
    tt_status st = r.values != NULL && r.bad != NULL
                       ? tt_run_look(run, site, &(tt_look){ .rank = -1 }, &latest, err)
                       : TT_ENOMEM;
    bool is_tensor = (latest.latest.products & TT_PRODUCT_STATS) != 0;
    bool is_number = is_tensor && latest.latest.stats.count == 1;
    tt_json_open(&json, NULL, '{');
    tt_json_i64(&json, "first", a.first);
    tt_json_i64(&json, "last", a.last);
    tt_json_i64(&json, "width", a.width);
    tt_json_i64(&json, "bins", (int64_t)a.bins);
    tt_json_bool(&json, "tensor", is_tensor && !is_number);
    tt_json_open(&json, "rows", '['); /* of each file: a text for each bin */
    const tt_field field = !is_tensor ? TT_FIELD_SCALAR : is_number ? TT_FIELD_MEAN : TT_FIELD_RMS;
    for (int32_t f = 0; st == TT_OK && f < run->count; f++)
        st = put_row(&json, run, f, site, field, &a, &r);
    tt_json_close(&json);
    tt_json_close(&json);
    free(r.values);
    free(r.bad);
    free(r.steps);
    free(r.points);
    return st == TT_OK ? tt_json_finish(&json) : tt_fail_plain(err, st);
}
