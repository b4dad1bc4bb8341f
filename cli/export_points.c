/* export_points.c -- the points of a run as csv and json.
 * SPDX-License-Identifier: Apache-2.0 */
#include "export_values.h"
#include "json_out.h"
#include "overview.h"
#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_number(double x)
{
    char text[TT_NUMBER_TEXT];
    (void)tt_number_f64(x, text);
    printf(",%s", text);
}

static void put_csv(const char *site, int32_t rank, const tt_point *p)
{
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
    if ((p->products & TT_PRODUCT_STATS) == 0) {
        puts(",,,,,,,,,,,,,,,");
        return;
    }
    tt_numbers n = tt_json_numbers(p);
    const char *dtype = tt_json_dtype(p);
    printf(",%s,", dtype != NULL ? dtype : "");
    for (int32_t d = 0; d < p->ndim; d++)
        printf("%s%" PRId64, d > 0 ? "x" : "", p->shape[d]);
    for (size_t i = 0; i < TT_COUNTS; i++)
        printf(",%" PRId64, n.counts[i]);
    for (size_t i = 0; i < TT_NUMBERS - 1; i++) /* the last one, rms, follows from l2 */
        put_number(n.numbers[i]);
    putchar('\n');
}

/* Where the points go. */
typedef struct sink {
    tt_json *json;     /* NULL: csv */
    tt_hist_bin *bins; /* owned; of the point's histogram */
    size_t cap;
    int64_t done, total;
} sink;

/* Reads the bins of a point's histogram into memory that grows. */
static tt_status read_bins(tt_run *run, int32_t file, int32_t site, int64_t index, sink *to,
                           size_t *count, tt_error *err)
{
    tt_status st = tt_run_hist(run, file, site, index, to->bins, to->cap, count, err);
    if (st < 0 || *count <= to->cap)
        return st;
    if (tt_grow(&to->bins, &to->cap, *count, sizeof *to->bins) < 0)
        return TT_ENOMEM;
    return tt_run_hist(run, file, site, index, to->bins, to->cap, count, err);
}

static tt_status put_point(const tt_export *what, int32_t file, int32_t site, int64_t index,
                           const tt_point *p, void *context, tt_error *err)
{
    sink *to = context;
    tt_json *json = to->json;
    const char *name = tt_run_site_name(what->run, site);
    int32_t rank = tt_overview_file(what->run, file).rank;
    size_t count = 0;
    bool has_hist = json != NULL && (p->products & TT_PRODUCT_HIST) != 0;
    tt_status st = has_hist ? read_bins(what->run, file, site, index, to, &count, err) : TT_OK;
    tt_progress_tell(++to->done, to->total);
    if (st < 0)
        return st;
    if (json == NULL) {
        put_csv(name, rank, p); /* a row has no room for a histogram */
        return TT_OK;
    }
    tt_json_open(json, NULL, '{');
    tt_json_text(json, "site", name);
    tt_json_i64(json, "rank", rank);
    tt_json_point(json, NULL, p);
    if (has_hist)
        tt_json_open(json, "histogram", '[');
    for (size_t i = 0; i < count; i++) {
        tt_json_open(json, NULL, '[');
        tt_json_f64(json, NULL, to->bins[i].low);
        tt_json_f64(json, NULL, to->bins[i].high);
        tt_json_i64(json, NULL, to->bins[i].count);
        tt_json_close(json);
    }
    if (has_hist)
        tt_json_close(json);
    tt_json_close(json);
    return TT_OK;
}

tt_status tt_export_each(const tt_export *what, tt_export_visit *visit, void *context, tt_error *err)
{
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(what->run); site++) {
        if (!tt_site_is_shown(tt_run_site_name(what->run, site), what->glob))
            continue;
        for (int32_t f = 0; st == TT_OK && f < tt_run_file_count(what->run); f++)
            for (int64_t i = 0; st == TT_OK && i < (int64_t)tt_run_points(what->run, f, site); i++) {
                tt_point p;
                st = tt_run_point(what->run, f, site, i, &p, err);
                if (st == TT_OK && tt_range_has(&what->steps, p.step))
                    st = visit(what, f, site, i, &p, context, err);
                if (st == TT_EFORMAT && what->is_partial) {
                    ++*what->lost;
                    err->text[0] = '\0';
                    st = TT_OK;
                }
            }
    }
    return st;
}

static int64_t count_points(const tt_export *what)
{
    int64_t points = 0;
    for (int32_t site = 0; site < tt_run_site_count(what->run); site++)
        for (int32_t f = 0; f < tt_run_file_count(what->run); f++)
            if (tt_site_is_shown(tt_run_site_name(what->run, site), what->glob))
                points += (int64_t)tt_run_points(what->run, f, site);
    return points;
}

tt_status tt_export_points(const tt_export *what, tt_error *err)
{
    tt_output *output = NULL;
    bool is_file = strcmp(what->out, "-") != 0, is_json = strcmp(what->format, "json") == 0;
    tt_status st = is_file ? tt_output_open(what->out, &output, err) : TT_OK;
    /* The writer of JSON and main's check for a full disk use standard output: it becomes the file. */
    if (st == TT_OK && is_file && dup2(tt_output_fd(output), STDOUT_FILENO) < 0)
        st = tt_fail(err, TT_EIO, "%.150s: %s", what->out, strerror(errno));
    if (st < 0)
        goto out;
    tt_json_out answer;
    tt_json *json = is_json ? tt_json_begin(&answer, '[') : NULL;
    if (!is_json)
        puts("site,rank,step,call,time,phase,value,dtype,shape,count,nan,posinf,neginf,zeros,min,max,"
             "absmax,sum,mean,std,l1,l2");
    sink to = { .json = json, .total = count_points(what) };
    st = tt_export_each(what, put_point, &to, err);
    free(to.bins);
    if (is_json)
        st = tt_json_print(&answer, st);
    if (is_file && (fflush(stdout) != 0 || ferror(stdout) != 0) && st == TT_OK)
        st = tt_fail(err, TT_EIO, "%.150s: %s", what->out, strerror(errno));
out:
    st = tt_output_close(output, st, err);
    if (is_file && st < 0)
        (void)freopen("/dev/null", "we", stdout); /* said once */
    return st;
}
