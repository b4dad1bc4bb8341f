/* export_points.c -- the points of a run as csv and json.
 * SPDX-License-Identifier: Apache-2.0 */
#include "export_values.h"
#include "json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* bins: of the point's histogram; none where it has none */
typedef void put_fn(tt_json *json, const char *site, int32_t rank, const tt_point *p,
                    const tt_hist_bin *bins, size_t count);

static void put_number(double x)
{
    char text[TT_NUMBER_TEXT];
    (void)tt_number_f64(x, text);
    printf(",%s", text);
}

static void put_csv(tt_json *json, const char *site, int32_t rank, const tt_point *p,
                    const tt_hist_bin *bins, size_t count)
{
    (void)json;
    (void)bins; /* a row has no room for them */
    (void)count;
    putchar('"');
    for (const char *at = site; *at != '\0'; at++) {
        if (*at == '"')
            putchar('"');
        putchar(*at);
    }
    static const char *const phases[] = { "", "train", "eval" };
    printf("\",%d,%" PRId64 ",%u,%" PRId64 ",%s", (int)rank, p->step, p->call, p->time,
           p->phase < TT_PHASE_COUNT_ ? phases[p->phase] : "");
    if ((p->products & TT_PRODUCT_SCALAR) != 0)
        put_number(p->scalar);
    else
        putchar(',');
    const tt_stats *s = &p->stats;
    if ((p->products & TT_PRODUCT_STATS) == 0) {
        puts(",,,,,,,,,,,,,,,");
        return;
    }
    bool is_known = s->dtype >= 0 && s->dtype < TT_DTYPE_COUNT_;
    printf(",%s,", is_known ? tt_dtype_name((tt_dtype)s->dtype) : "");
    for (int32_t d = 0; d < p->ndim; d++)
        printf("%s%" PRId64, d > 0 ? "x" : "", p->shape[d]);
    printf(",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, s->count, s->nan, s->posinf,
           s->neginf, s->zeros);
    const double x[] = { s->min,  s->max,          s->absmax, s->sum,
                         s->mean, tt_stats_std(s), s->l1,     tt_stats_l2(s) };
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        put_number(x[i]);
    putchar('\n');
}

static void put_json(tt_json *json, const char *site, int32_t rank, const tt_point *p,
                     const tt_hist_bin *bins, size_t count)
{
    tt_json_open(json, NULL, '{');
    tt_json_text(json, "site", site);
    tt_json_i64(json, "rank", rank);
    tt_json_point(json, NULL, p);
    if ((p->products & TT_PRODUCT_HIST) != 0)
        tt_json_open(json, "histogram", '[');
    for (size_t i = 0; i < count; i++) {
        tt_json_open(json, NULL, '[');
        tt_json_f64(json, NULL, bins[i].low);
        tt_json_f64(json, NULL, bins[i].high);
        tt_json_i64(json, NULL, bins[i].count);
        tt_json_close(json);
    }
    if ((p->products & TT_PRODUCT_HIST) != 0)
        tt_json_close(json);
    tt_json_close(json);
}

int64_t tt_export_points(const tt_export *what)
{
    int64_t points = 0;
    for (int32_t site = 0; site < tt_run_site_count(what->run); site++)
        for (int32_t f = 0; f < tt_run_file_count(what->run); f++)
            if (tt_site_is_shown(tt_run_site_name(what->run, site), what->glob))
                points += (int64_t)tt_run_points(what->run, f, site);
    return points;
}

tt_status tt_export_goes_on(const tt_export *what, tt_status st, tt_error *err)
{
    if (st != TT_EFORMAT || !what->is_partial)
        return st;
    ++*what->lost;
    err->text[0] = '\0';
    return TT_OK;
}

/* The bins of a point's histogram, into memory that grows; the caller frees it. */
static tt_status read_bins(const tt_export *what, int32_t file, int32_t site, int64_t index,
                           tt_hist_bin **bins, size_t *cap, size_t *count, tt_error *err)
{
    tt_status st = tt_run_hist(what->run, file, site, index, *bins, *cap, count, err);
    if (st < 0 || *count <= *cap)
        return st;
    tt_hist_bin *grown = realloc(*bins, *count * sizeof *grown);
    if (grown == NULL) {
        return tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
    }
    *bins = grown;
    *cap = *count;
    return tt_run_hist(what->run, file, site, index, *bins, *cap, count, err);
}

static tt_status put_all(const tt_export *what, tt_json *json, put_fn *put, tt_error *err)
{
    tt_status st = TT_OK;
    int64_t done = 0, total = tt_export_points(what);
    tt_hist_bin *bins = NULL; /* owned */
    size_t cap = 0;
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(what->run); site++)
        for (int32_t f = 0; st == TT_OK && f < tt_run_file_count(what->run); f++) {
            const char *name = tt_run_site_name(what->run, site);
            tt_run_file about;
            if (!tt_site_is_shown(name, what->glob) || tt_run_file_get(what->run, f, &about) < 0)
                continue;
            int64_t n = (int64_t)tt_run_points(what->run, f, site);
            for (int64_t i = 0; st == TT_OK && i < n; i++) {
                tt_point p;
                size_t count = 0;
                tt_status read = tt_run_point(what->run, f, site, i, &p, err);
                bool is_wanted = read == TT_OK && tt_range_has(&what->steps, p.step);
                if (is_wanted && put == put_json && (p.products & TT_PRODUCT_HIST) != 0)
                    read = read_bins(what, f, site, i, &bins, &cap, &count, err);
                if (read == TT_OK && is_wanted)
                    put(json, name, about.rank, &p, bins, count);
                st = tt_export_goes_on(what, read, err);
            }
            tt_progress_tell(what->bar, done += n, total);
        }
    free(bins);
    return st;
}

/* Standard output is what the writers of JSON and main's check for a full disk use,
 * so it is turned to the file. */
static tt_status turn_output(tt_output *output, const char *path, tt_error *err)
{
    if (dup2(tt_output_fd(output), STDOUT_FILENO) >= 0)
        return TT_OK;
    return tt_fail(err, TT_EIO, "%.150s: %s", path, strerror(errno));
}

static tt_status export_points(const tt_export *what, bool is_json, tt_error *err)
{
    tt_output *output = NULL;
    bool is_file = strcmp(what->out, "-") != 0;
    tt_status st = is_file ? tt_output_open(what->out, &output, err) : TT_OK;
    if (st == TT_OK && is_file)
        st = turn_output(output, what->out, err);
    if (st < 0)
        goto out;
    tt_json_out answer;
    tt_json *json = is_json ? tt_json_begin(&answer, '[') : NULL;
    if (!is_json)
        puts("site,rank,step,call,time,phase,value,dtype,shape,count,nan,posinf,neginf,zeros,min,max,"
             "absmax,sum,mean,std,l1,l2");
    st = put_all(what, json, is_json ? put_json : put_csv, err);
    if (is_json)
        st = tt_json_print(&answer, st);
    if (is_file && (fflush(stdout) != 0 || ferror(stdout) != 0) && st == TT_OK) {
        st = tt_fail(err, TT_EIO, "%.150s: %s", what->out, strerror(errno));
    }
out:
    st = tt_output_close(output, st, err);
    if (is_file && st < 0)
        (void)freopen("/dev/null", "we", stdout); /* said once */
    return st;
}

tt_status tt_export_csv(const tt_export *what, tt_error *err)
{
    return export_points(what, false, err);
}

tt_status tt_export_json(const tt_export *what, tt_error *err)
{
    return export_points(what, true, err);
}
