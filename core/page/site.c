/* site.c -- what a page says about one site: its latest point, histograms, a kept tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"
#include "report/answer.h"
#include "store/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HISTOGRAM_STEPS = 48, OCTAVES = 12 };

void tt_page_put_number(tt_json *json, const char *name, double x)
{
    char text[TT_NUMBER_TEXT];
    (void)snprintf(text, sizeof text, "%.7g", x + 0.0);
    tt_json_text(json, name, text);
}

/* The latest point of a site, as tt.show prints it and in full. */
static tt_status put_latest(tt_json *json, const tt_latest *found)
{
    const tt_point *p = &found->latest;
    const tt_stats *s = &p->stats;
    tt_buf line = { 0 };
    tt_status st = tt_point_line(p, &line);
    tt_json_i64(json, "step", p->step);
    tt_json_text(json, "line", line.data);
    tt_buf_free(&line);
    if ((p->products & TT_PRODUCT_STATS) != 0) {
        tt_json_i64(json, "count", s->count);
        tt_json_ints(json, "shape", p->shape, p->ndim);
        const struct {
            const char *name;
            double x;
        } fields[] = { { "min", s->min },
                       { "max", s->max },
                       { "mean", s->mean },
                       { "std", tt_stats_std(s) },
                       { "rms", tt_stats_rms(s) } };
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            tt_page_put_number(json, fields[i].name, fields[i].x);
        if ((s->nan | s->posinf | s->neginf) != 0) {
            tt_json_i64(json, "nan", s->nan);
            tt_json_i64(json, "inf", s->posinf + s->neginf);
        }
    } else {
        tt_page_put_number(json, "value", p->scalar);
    }
    return st;
}

/* A few elements of the tensor that was kept last. */
static tt_status put_value(tt_json *json, tt_run *run, int32_t site, const tt_latest *found,
                           bool is_of_rank)
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
        if (is_of_rank)
            tt_json_i64(json, "rank", run->taps[found->file]->rank);
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

tt_status tt_page_put_site(tt_json *json, tt_run *run, int32_t site, const tt_latest *found,
                           tt_page_room *room)
{
    uint32_t products = found->latest.products;
    int64_t points = 0;
    for (int32_t f = 0; f < tt_run_file_count(run); f++)
        points += (int64_t)tt_run_points(run, f, site);
    tt_json_i64(json, "points", points);
    tt_status st = put_latest(json, found);
    if (st == TT_OK && (products & TT_PRODUCT_HIST) != 0 && room->histograms-- > 0)
        st = put_histograms(json, run, site, found);
    tt_run *files = tt_run_parts(run); /* values are not joined: the lowest rank's are shown */
    tt_latest kept = *found;
    if (st == TT_OK && files != run && room->values > 0)
        st = tt_run_look(files, site, &(tt_look){ .rank = -1 }, &kept, NULL);
    if (st == TT_OK && (kept.latest.products & (TT_PRODUCT_VALUE | TT_PRODUCT_SAMPLE)) != 0 &&
        room->values-- > 0)
        st = put_value(json, files, site, &kept, files != run);
    return st == TT_EFORMAT ? TT_OK : st;
}
