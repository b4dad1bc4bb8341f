/* page.c -- a run as one HTML file that needs nothing else.
 *
 * Exists so that people can look at a run, and send it, without a server.  The page itself, its
 * style and its scripts are in web/ and are embedded by the build (assets.h); here their data
 * are put in: facts that the page shows at once, then tables and columns that it unpacks when
 * it draws them.  docs/ARCHITECTURE.md says how the data are laid out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/assets.h"
#include "page/collect.h"
#include "page/encode.h"
#include "page/finding.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_BINS = 2048, /* of a curve */
    TENSOR_BINS = 1024, /* of a tensor */
    BINS_LEAST = 16,
    TENSOR_COLUMNS = 7,
    NUMBER_CELLS_MOST = 1 << 17,
    SMALL_BYTES = 400 << 10, /* of the data of a small run, as text ... */
    BYTES_OF_SITE = 3200,    /* ... and more for each site ... */
    MOST_BYTES = 3600 << 10, /* ... up to this */
    HISTOGRAM_SITES = 100,
    HISTOGRAM_STEPS = 48,
    OCTAVES = 12,
    VALUE_SITES = 100,
    NOTES_MOST = 200,
};

/* One run while its page is made. */
typedef struct source {
    const tt_page_run *page;
    tt_run *run;
    tt_latest *latest; /* owned; of each site */
    tt_page_bins numbers, tensors;
    int64_t lost; /* points that cannot be read */
} source;

static bool is_number(const tt_latest *latest)
{
    return (latest->latest.products & TT_PRODUCT_STATS) == 0 || latest->latest.stats.count == 1;
}

/* ---- reading ----------------------------------------------------------------------- */

static tt_status look_at_sites(source *s, size_t *numbers, size_t *tensors, tt_error *err)
{
    tt_status st = tt_page_look(s->run, &s->latest, err);
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(s->run); site++)
        for (int32_t f = 0; f < tt_run_file_count(s->run); f++)
            if (s->latest[site].file >= 0 && tt_run_points(s->run, f, site) > 0)
                ++*(is_number(&s->latest[site]) ? numbers : tensors);
    return st;
}

static tt_status collect(source *s, const tt_page_axis *axis, tt_error *err)
{
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(s->run); site++)
        for (int32_t f = 0; st == TT_OK && s->latest[site].file >= 0 && f < tt_run_file_count(s->run);
             f++)
            st = tt_page_bins_add(is_number(&s->latest[site]) ? &s->numbers : &s->tensors, axis, s->run,
                                  f, site, &s->lost);
    return st < 0 ? tt_fail(err, st, "%s", tt_status_text(st)) : TT_OK;
}

/* ---- tables --------------------------------------------------------------------------- */

static void put_number(tt_json *json, const char *name, double x)
{
    char text[TT_NUMBER_TEXT];
    (void)snprintf(text, sizeof text, "%.7g", x + 0.0);
    tt_json_text(json, name, text);
}

static void put_shape(tt_json *json, const tt_point *p)
{
    tt_json_open(json, "shape", '[');
    for (int32_t d = 0; d < p->ndim; d++)
        tt_json_i64(json, NULL, p->shape[d]);
    tt_json_close(json);
}

/* The latest point of a site, as tt.show prints it and in full. */
static tt_status put_latest(tt_json *json, const tt_latest *found)
{
    const tt_point *p = &found->latest;
    const tt_stats *s = &p->stats;
    tt_buf line = { 0 };
    tt_status st = tt_page_point_line(p, &line);
    tt_json_i64(json, "step", p->step);
    tt_json_text(json, "line", line.data);
    tt_buf_free(&line);
    if ((p->products & TT_PRODUCT_STATS) != 0) {
        tt_json_i64(json, "count", s->count);
        put_shape(json, p);
        const struct {
            const char *name;
            double x;
        } fields[] = { { "min", s->min },
                       { "max", s->max },
                       { "mean", s->mean },
                       { "std", tt_stats_std(s) },
                       { "rms", tt_stats_rms(s) } };
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            put_number(json, fields[i].name, fields[i].x);
        if ((s->nan | s->posinf | s->neginf) != 0) {
            tt_json_i64(json, "nan", s->nan);
            tt_json_i64(json, "inf", s->posinf + s->neginf);
        }
    } else {
        put_number(json, "value", p->scalar);
    }
    return st;
}

/* A few elements of the tensor that was kept last. */
static tt_status put_value(tt_json *json, tt_run *run, int32_t site, const tt_latest *found)
{
    const tt_point *p = &found->latest;
    tt_sample *sample = NULL; /* owned */
    void *bytes = NULL;       /* owned */
    tt_dtype dtype = TT_F32;
    tt_status st = TT_OK;
    if ((p->products & TT_PRODUCT_VALUE) != 0) {
        tt_value value;
        tt_tensor t;
        st = tt_run_value_find(run, found->file, p->value_at, &value, NULL);
        if (st == TT_OK && value.bytes > 64 << 20)
            return TT_OK; /* too large to read for a small picture */
        bytes = st == TT_OK ? malloc((size_t)value.bytes + 1) : NULL;
        st = bytes != NULL ? tt_run_value_read(run, &value, bytes, NULL) : st < 0 ? st : TT_ENOMEM;
        if (st == TT_OK)
            st = tt_tensor_describe(&t, bytes, value.dtype, value.ndim, value.shape, NULL, NULL);
        if (st == TT_OK)
            st = tt_sample_create(&t, &(tt_sample_options){ 64, 24, 1 }, &sample, NULL);
        dtype = st == TT_OK ? value.dtype : dtype;
    } else if ((p->products & TT_PRODUCT_SAMPLE) != 0) {
        st = tt_run_sample(run, found->file, site, found->index, &sample, &dtype, NULL);
    }
    if (sample != NULL && tt_sample_count(sample) > 0) {
        const tt_sample_slice *slice = tt_sample_at(sample, 0);
        tt_json_open(json, "value", '{');
        tt_json_text(json, "label", slice->label);
        tt_json_open(json, "rows", '[');
        for (int64_t r = 0; r < slice->rows; r++) {
            tt_json_open(json, NULL, '[');
            for (int64_t c = 0; c < slice->cols; c++) {
                const char *element =
                    (const char *)slice->values + (size_t)(r * slice->cols + c) * tt_dtype_size(dtype);
                char text[TT_NUMBER_TEXT];
                (void)tt_number_short(tt_element_f64(dtype, element), text);
                tt_json_text(json, NULL, text);
            }
            tt_json_close(json);
        }
        tt_json_close(json);
        tt_json_bool(json, "partial", tt_sample_is_partial(sample));
        tt_json_close(json);
    }
    tt_sample_free(sample);
    free(bytes);
    return st == TT_ENOMEM ? st : TT_OK; /* a value that is gone or damaged is left out */
}

/* The row of a value: octaves below zero, around zero, octaves above.  top: the highest exponent. */
static size_t octave_row(double x, int top)
{
    int exponent = 0;
    (void)frexp(x, &exponent);
    int above = exponent - (top - OCTAVES); /* 1 to OCTAVES; less is near zero */
    if (x == 0 || above <= 0)
        return OCTAVES;
    above = above > OCTAVES ? OCTAVES : above;
    return (size_t)(x < 0 ? OCTAVES - above : OCTAVES + above);
}

/* Histograms over the steps: for some points the share of each octave, in 255ths. */
static tt_status put_histograms(tt_json *json, tt_run *run, int32_t site, const tt_latest *found)
{
    enum { BINS = 1024, ROWS = 2 * OCTAVES + 1 };
    tt_hist_bin bins[BINS];
    int64_t points = (int64_t)tt_run_points(run, found->file, site), shown[HISTOGRAM_STEPS];
    size_t count = 0, have = 0;
    int top = -2000;
    for (int64_t k = 0; k < HISTOGRAM_STEPS && k < points; k++) {
        int64_t index = points <= HISTOGRAM_STEPS ? k : k * (points - 1) / (HISTOGRAM_STEPS - 1);
        tt_status st = tt_run_hist(run, found->file, site, index, bins, BINS, &count, NULL);
        if (st == TT_ENOMEM)
            return st;
        if (st < 0 || count == 0)
            continue;
        shown[have++] = index;
        int exponent = 0;
        (void)frexp(fmax(fabs(bins[0].low), fabs(bins[count - 1].high)), &exponent);
        top = exponent > top ? exponent : top;
    }
    if (have == 0)
        return TT_OK;
    tt_json_open(json, "histogram", '{');
    tt_json_i64(json, "top", top);
    tt_json_i64(json, "octaves", OCTAVES);
    tt_json_open(json, "columns", '[');
    for (size_t k = 0; k < have; k++) {
        double rows[ROWS] = { 0 }, all = 0;
        tt_point p;
        if (tt_run_hist(run, found->file, site, shown[k], bins, BINS, &count, NULL) < 0 ||
            tt_run_point(run, found->file, site, shown[k], &p, NULL) < 0)
            continue;
        for (size_t b = 0; b < count; b++) {
            double middle = fabs(bins[b].low) < fabs(bins[b].high) ? bins[b].low : bins[b].high;
            rows[octave_row(bins[b].low == 0 && bins[b].high == 0 ? 0 : middle, top)] +=
                (double)bins[b].count;
            all += (double)bins[b].count;
        }
        tt_json_open(json, NULL, '[');
        tt_json_i64(json, NULL, p.step);
        for (size_t r = 0; r < ROWS; r++)
            tt_json_i64(json, NULL, all > 0 ? (int64_t)(rows[r] / all * 255 + 0.5) : 0);
        tt_json_close(json);
    }
    tt_json_close(json);
    tt_json_close(json);
    return TT_OK;
}

static tt_status put_sites(tt_json *json, const source *s)
{
    tt_status st = TT_OK;
    int histograms = 0, values = 0;
    tt_json_open(json, "sites", '[');
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(s->run); site++) {
        const tt_latest *found = &s->latest[site];
        uint32_t products = found->latest.products;
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "name", tt_run_site_name(s->run, site));
        if (found->file >= 0) {
            st = put_latest(json, found);
            if (found->anomalies != 0)
                tt_json_i64(json, "anomalies", found->anomalies);
            if (st == TT_OK && (products & TT_PRODUCT_HIST) != 0 && histograms++ < HISTOGRAM_SITES)
                st = put_histograms(json, s->run, site, found);
            if (st == TT_OK && (products & (TT_PRODUCT_VALUE | TT_PRODUCT_SAMPLE)) != 0 &&
                values++ < VALUE_SITES)
                st = put_value(json, s->run, site, found);
        }
        tt_json_close(json);
    }
    tt_json_close(json);
    return st;
}

/* The rows of the tree, with repeated layers folded. */
static tt_status put_tree(tt_json *json, const source *s)
{
    tt_run_tree *tree = NULL; /* owned */
    const tt_look look = { .rank = -1 };
    tt_status st = tt_run_tree_create(s->run, &look, NULL, 0, &tree, NULL);
    tt_json_open(json, "tree", '[');
    for (size_t i = 0; st == TT_OK && i < tree->count; i++) {
        const tt_tree_row *row = &tree->rows[i];
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "label", row->label);
        tt_json_i64(json, "depth", row->depth);
        if (row->class_name != NULL)
            tt_json_text(json, "class", row->class_name);
        if (row->sites > 0) {
            tt_json_open(json, "sites", '[');
            for (int32_t k = 0; k < row->sites; k++)
                tt_json_i64(json, NULL, row->members[k]);
            tt_json_close(json);
        }
        tt_json_close(json);
    }
    tt_json_close(json);
    tt_run_tree_free(tree);
    return st == TT_ENOMEM ? st : TT_OK; /* no site, or a damaged one: no tree */
}

/* The first step of each bin, the last step of all, and the series. */
static void put_bins(tt_json *json, const char *name, const tt_page_bins *bins, const tt_page_axis *axis)
{
    tt_json_open(json, name, '{');
    tt_json_bool(json, "exact", bins->width == 1);
    tt_json_open(json, "steps", '[');
    for (size_t i = 0; i < axis->count; i += bins->width)
        tt_json_i64(json, NULL, axis->steps[i]);
    tt_json_close(json);
    tt_json_i64(json, "last", axis->count > 0 ? axis->steps[axis->count - 1] : 0);
    tt_json_open(json, "series", '[');
    for (size_t i = 0; i < bins->count; i++) {
        const tt_page_series *series = &bins->series[i];
        tt_json_open(json, NULL, '[');
        tt_json_i64(json, NULL, series->site);
        tt_json_i64(json, NULL, series->file);
        tt_json_i64(json, NULL, series->is_eval);
        tt_json_i64(json, NULL, series->points);
        tt_json_close(json);
    }
    tt_json_close(json);
    tt_json_close(json);
}

static tt_status put_columns(tt_buf *out, const tt_page_bins *bins, int number, const char *sort,
                             size_t bytes)
{
    char name[64];
    size_t n = bins->count * bins->bins;
    if (n == 0)
        return out->st;
    for (tt_page_column c = 0; c < TT_PAGE_COLUMN_COUNT_; c++) {
        /* Where every bin has one point, its least and its largest value are that point's. */
        tt_page_column other = c == TT_PAGE_RMS_LOW ? TT_PAGE_RMS : TT_PAGE_VALUE;
        bool may_be_same = c == TT_PAGE_LOW || c == TT_PAGE_HIGH || c == TT_PAGE_RMS_LOW;
        if (bins->cells[c] == NULL ||
            (may_be_same && memcmp(bins->cells[c], bins->cells[other], n * sizeof(float)) == 0))
            continue;
        (void)snprintf(name, sizeof name, "%d/%s/%s", number, sort, tt_page_column_name(c));
        (void)tt_page_put_floats(out, name, bins->cells[c], n, bytes);
    }
    (void)snprintf(name, sizeof name, "%d/%s/bad", number, sort);
    return tt_page_put_block(out, name, bins->bad, n);
}

static tt_status put_table(tt_buf *out, const source *s, int number)
{
    tt_buf text = { 0 };
    tt_json json = { .out = &text, .is_compact = true };
    char name[32];
    tt_json_open(&json, NULL, '{');
    tt_status st = put_sites(&json, s);
    if (st == TT_OK)
        st = put_tree(&json, s);
    tt_json_close(&json);
    if (st == TT_OK)
        st = tt_json_finish(&json);
    (void)snprintf(name, sizeof name, "%d/table", number);
    if (st == TT_OK)
        st = tt_page_put_block(out, name, text.data, text.len);
    tt_buf_free(&text);
    return st;
}

static tt_status put_series(tt_buf *out, const source *s, const tt_page_axis *axis, int number)
{
    tt_buf text = { 0 };
    tt_json json = { .out = &text, .is_compact = true };
    char name[32];
    tt_json_open(&json, NULL, '{');
    put_bins(&json, "numbers", &s->numbers, axis);
    put_bins(&json, "tensors", &s->tensors, axis);
    tt_json_close(&json);
    tt_status st = tt_json_finish(&json);
    (void)snprintf(name, sizeof name, "%d/series", number);
    if (st == TT_OK)
        st = tt_page_put_block(out, name, text.data, text.len);
    tt_buf_free(&text);
    return st;
}

/* ---- facts ------------------------------------------------------------------------------ */

/* What says where and by whom the program was run. */
static bool is_private(const char *key)
{
    static const char *const keys[] = { "host", "argv", "cwd", "commit" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

static void put_notes(tt_json *json, const tt_run *run)
{
    tt_json_open(json, "notes", '[');
    for (int32_t f = 0, shown = 0; f < tt_run_file_count(run); f++) {
        tt_note note;
        for (int32_t i = 0; shown < NOTES_MOST && tt_run_note(run, f, i, &note) == TT_OK; i++, shown++) {
            tt_json_open(json, NULL, '[');
            tt_json_i64(json, NULL, note.step);
            tt_json_text(json, NULL, note.text);
            tt_json_close(json);
        }
    }
    tt_json_close(json);
}

static void put_run(tt_json *json, const source *s, const tt_page_options *options)
{
    tt_run *run = s->run;
    int64_t bytes = 0, points = 0;
    tt_json_open(json, NULL, '{');
    tt_json_text(json, "path", s->page->path);
    tt_json_text(json, "state", s->page->state);
    tt_json_open(json, "ranks", '[');
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_run_file file = { 0 };
        (void)tt_run_file_get(run, f, &file);
        tt_json_i64(json, NULL, file.rank);
        bytes += file.bytes;
        points += file.points;
    }
    tt_json_close(json);
    tt_json_i64(json, "bytes", bytes);
    tt_json_i64(json, "points", points);
    tt_json_i64(json, "lost", s->lost);
    tt_json_i64(json, "shown", tt_run_shown_count(run, NULL));
    tt_json_open(json, "info", '{');
    for (int32_t i = 0; tt_run_info_key(run, 0, i) != NULL; i++)
        if (!options->is_private || !is_private(tt_run_info_key(run, 0, i)))
            tt_json_text(json, tt_run_info_key(run, 0, i), tt_run_info_value(run, 0, i));
    tt_json_close(json);
    put_notes(json, run);
    int32_t cost = tt_run_find(run, "tensortap/cost");
    tt_point latest;
    if (cost >= 0 && tt_run_point(run, 0, cost, -1, &latest, NULL) == TT_OK)
        tt_json_f64(json, "cost", latest.scalar);
    tt_json_close(json);
}

static tt_status put_facts(tt_buf *out, const source *sources, size_t count, const tt_diff *diff,
                           size_t bytes, const tt_page_options *options, tt_error *err)
{
    tt_buf text = { 0 };
    tt_json json = { .out = &text, .is_compact = true };
    tt_status st = TT_OK;
    tt_json_open(&json, NULL, '{');
    tt_json_text(&json, "version", TT_VERSION);
    tt_json_i64(&json, "bytes", (int64_t)bytes);
    tt_json_open(&json, "anomalies", '[');
    for (tt_anomaly a = 0; a < TT_ANOMALY_COUNT_; a++)
        tt_json_text(&json, NULL, tt_anomaly_text(a));
    tt_json_close(&json);
    tt_json_open(&json, "runs", '[');
    for (size_t i = 0; i < count; i++)
        put_run(&json, &sources[i], options);
    tt_json_close(&json);
    tt_json_open(&json, "findings", '[');
    if (diff != NULL)
        tt_page_put_divergence(&json, sources[0].run, sources[1].run, diff);
    for (size_t i = 0; st == TT_OK && i < count; i++)
        st = tt_page_findings(&json, sources[i].page, (int32_t)i, sources[i].latest, err);
    tt_json_close(&json);
    tt_json_close(&json);
    if (st == TT_OK)
        st = tt_json_finish(&json);
    if (st == TT_OK)
        st = tt_page_put_json(out, &text);
    tt_buf_free(&text);
    return st;
}

static tt_status put_diff(tt_buf *out, const source *sources, const tt_diff *diff)
{
    tt_buf text = { 0 };
    tt_json json = { .out = &text, .is_compact = true };
    tt_json_open(&json, NULL, '[');
    for (size_t i = 0; i < diff->count; i++) {
        const tt_diff_site *s = &diff->sites[i];
        tt_json_open(&json, NULL, '{');
        tt_json_text(&json, "name", s->name);
        tt_json_i64(&json, "a", tt_run_find(sources[0].run, s->name));
        tt_json_i64(&json, "rank", s->rank);
        tt_json_bool(&json, "first", (int64_t)i == diff->first);
        tt_json_text(&json, "verdict",
                     s->points > 0   ? tt_verdict_text(s->verdict)
                     : s->only_a > 0 ? "only in the first"
                                     : "only in the second");
        if (s->points > 0 && s->verdict != TT_DIFF_SAME) {
            tt_json_i64(&json, "first_step", s->first.step);
            tt_json_text(&json, "field", tt_field_name(s->worst.field));
            tt_json_i64(&json, "worst_step", s->worst.step);
            put_number(&json, "value_a", s->worst.a);
            put_number(&json, "value_b", s->worst.b);
            tt_json_f64(&json, "deviation", s->worst.deviation);
            tt_json_f64(&json, "floor", s->worst.floor);
        }
        tt_json_close(&json);
    }
    tt_json_close(&json);
    tt_status st = tt_json_finish(&json);
    if (st == TT_OK)
        st = tt_page_put_block(out, "diff", text.data, text.len);
    tt_buf_free(&text);
    return st;
}

/* ---- the page ------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Bytes of text that a number takes which is kept in so many bytes: measured with noise, which
 * does not compress. */
static double text_bytes(size_t bytes)
{
    static const double measured[] = { [2] = 1.6, [3] = 3.0, [4] = 4.3 };
    return measured[bytes];
}

/* Bins that have points: the others take next to no room. */
static size_t filled_cells(const tt_page_bins *bins)
{
    size_t filled = 0;
    for (size_t i = 0; i < bins->count * bins->bins; i++)
        filled += isnan(bins->cells[TT_PAGE_RMS][i]) ? 0 : 1;
    return filled;
}

/* Columns of all runs, with as many bytes for a number, then as many bins, as fit. */
static tt_status put_all_columns(tt_buf *out, source *sources, size_t count, size_t room, size_t *bytes)
{
    size_t start = out->len, cells = 0;
    tt_status st = TT_OK;
    for (size_t i = 0; i < count; i++)
        cells += filled_cells(&sources[i].tensors) * TENSOR_COLUMNS;
    /* Digits matter where a bin is a single step. */
    *bytes = sources[0].tensors.width > 1 ? 2 : 4;
    while (*bytes > 2 && (double)cells * text_bytes(*bytes) > (double)room)
        --*bytes;
    for (;;) {
        for (size_t i = 0; i < count; i++) {
            (void)put_columns(out, &sources[i].numbers, (int)i, "numbers",
                              sources[i].numbers.width == 1 ? 4 : 3);
            st = put_columns(out, &sources[i].tensors, (int)i, "tensors", *bytes);
        }
        if (st < 0 || out->len - start <= room || sources[0].tensors.bins <= BINS_LEAST)
            return st;
        tt_buf_cut(out, start);
        if (*bytes > 2)
            --*bytes;
        else
            for (size_t i = 0; i < count; i++)
                tt_page_bins_halve(&sources[i].tensors);
    }
}

static tt_status fill(source *sources, size_t count, const tt_page_axis *axis, size_t room, tt_error *err)
{
    size_t numbers = 0, tensors = 0;
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && i < count; i++)
        st = look_at_sites(&sources[i], &numbers, &tensors, err);
    double fit = (double)room / ((double)(tensors + 1) * TENSOR_COLUMNS * text_bytes(2));
    size_t most = least(TENSOR_BINS, fit > BINS_LEAST ? (size_t)fit : BINS_LEAST);
    size_t most_numbers = least(NUMBER_BINS, NUMBER_CELLS_MOST / (numbers + 1) + BINS_LEAST);
    for (size_t i = 0; st == TT_OK && i < count; i++) {
        tt_page_bins_init(&sources[i].numbers, axis, false, most_numbers);
        tt_page_bins_init(&sources[i].tensors, axis, true, most);
        st = collect(&sources[i], axis, err);
    }
    return st;
}

tt_status tt_page_write(const tt_page_run *runs, size_t count, const tt_page_options *options,
                        tt_buf *out, tt_error *err)
{
    source sources[2] = { { 0 } };
    tt_page_axis axis = { 0 };
    tt_diff *diff = NULL; /* owned */
    tt_buf data = { 0 };
    tt_status st =
        count == 1 || count == 2 ? TT_OK : tt_fail(err, TT_EINVAL, "a page is of one run or two");
    for (size_t i = 0; st == TT_OK && i < count; i++) {
        sources[i] = (source){ .page = &runs[i], .run = runs[i].run };
        st = tt_page_axis_add(&axis, runs[i].run, err);
    }
    int64_t sites = 0;
    for (size_t i = 0; st == TT_OK && i < count; i++)
        sites += tt_run_shown_count(runs[i].run, NULL);
    size_t room = least(MOST_BYTES, SMALL_BYTES + BYTES_OF_SITE * (size_t)sites), bytes = 4;
    if (st == TT_OK)
        st = fill(sources, count, &axis, room - room / 16, err); /* the tables need some */
    if (st == TT_OK && count == 2) {
        tt_rename rename;
        const tt_diff_options how = { .last_step = INT64_MAX,
                                      .rename = tt_diff_guess_rename(runs[0].run, runs[1].run, &rename)
                                                    ? &rename
                                                    : NULL };
        st = tt_diff_compute(runs[0].run, runs[1].run, &how, &diff, err);
    }
    for (size_t i = 0; st == TT_OK && i < count; i++)
        st = put_table(&data, &sources[i], (int)i);
    if (st == TT_OK && diff != NULL)
        st = put_diff(&data, sources, diff);
    if (st == TT_OK)
        st = put_all_columns(&data, sources, count, room > data.len ? room - data.len : 1, &bytes);
    for (size_t i = 0; st == TT_OK && i < count; i++)
        st = put_series(&data, &sources[i], &axis, (int)i);
    if (st == TT_OK)
        (void)tt_buf_append(out, tt_page_head, tt_page_head_len);
    if (st == TT_OK)
        st = put_facts(out, sources, count, diff, bytes, options, err);
    if (st == TT_OK) {
        (void)tt_buf_append(out, tt_page_middle, tt_page_middle_len);
        (void)tt_buf_append(out, data.data, data.len);
        st = tt_buf_append(out, tt_page_tail, tt_page_tail_len);
    }
    for (size_t i = 0; i < count && i < 2; i++) {
        tt_page_bins_free(&sources[i].numbers);
        tt_page_bins_free(&sources[i].tensors);
        free(sources[i].latest);
    }
    tt_buf_free(&data);
    tt_diff_free(diff);
    tt_page_axis_free(&axis);
    return st < 0 && err != NULL && err->text[0] == '\0' ? tt_fail(err, st, "%s", tt_status_text(st))
                                                         : st;
}
