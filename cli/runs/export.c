/* export.c -- the points of a run as csv and json, its values as npy and safetensors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/export.h"

#include "output/json.h"
#include "output/progress.h"
#include "runs/overview.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

tt_status tt_export_visit(const tt_export *what, tt_export_visitor *visit, void *context, tt_error *err)
{
    tt_status st = TT_OK;
    const int64_t sites = tt_run_site_count(what->run), parts = 1000; /* of a site, for the progress */
    for (int32_t site = 0; st == TT_OK && site < sites; site++) {
        if (!tt_site_is_shown(tt_run_site_name(what->run, site), what->glob))
            continue;
        for (int32_t f = 0; st == TT_OK && f < tt_run_file_count(what->run); f++) {
            int64_t points = (int64_t)tt_run_points(what->run, f, site);
            for (int64_t i = 0; st == TT_OK && i < points; i++) {
                tt_point p;
                st = tt_run_point(what->run, f, site, i, &p, err);
                if (st == TT_OK && tt_range_has(&what->steps, p.step))
                    st = visit(what, f, site, i, &p, context, err);
                if (st == TT_EFORMAT && what->is_partial) {
                    ++*what->lost;
                    err->text[0] = '\0';
                    st = TT_OK;
                }
                tt_progress_tell(site * parts + i * parts / points, sites * parts);
            }
        }
    }
    return st;
}

/* ---- how much ---------------------------------------------------------------------- */

static tt_status count_point(const tt_export *what, int32_t file, int32_t site, int64_t index,
                             const tt_point *p, void *context, tt_error *err)
{
    (void)what, (void)file, (void)site, (void)index, (void)p, (void)err;
    ++*(int64_t *)context;
    return TT_OK;
}

tt_status tt_export_weigh_points(const tt_export *what, tt_error *err)
{
    enum { ROW = 100 }; /* bytes of a point as text, about */
    int64_t points = 0, lost = 0;
    for (int32_t site = 0; site < (int32_t)tt_run_site_count(what->run); site++)
        for (int32_t f = 0; f < tt_run_file_count(what->run); f++)
            if (tt_site_is_shown(tt_run_site_name(what->run, site), what->glob))
                points += (int64_t)tt_run_points(what->run, f, site);
    bool has_all_steps = what->steps.first == INT64_MIN && what->steps.last == INT64_MAX;
    tt_status st = TT_OK;
    if (!has_all_steps && tt_run_outgrows(what->run, points * ROW)) {
        tt_export counted = *what;
        counted.lost = &lost;
        points = 0;
        st = tt_export_visit(&counted, count_point, &points, err);
    }
    if (st == TT_OK && tt_run_outgrows(what->run, points * ROW))
        st =
            tt_fail(err, TT_ELIMIT,
                    "these %s points take %s as text, and the run only %s: refused; choose fewer of them "
                    "with GLOB and --step",
                    tt_screen_count(points), tt_screen_bytes(points * ROW),
                    tt_screen_bytes(tt_run_totals(what->run).bytes));
    return st;
}

/* ---- points ------------------------------------------------------------------------ */

static void put_number(tt_buf *row, double x)
{
    char text[1 + TT_NUMBER_TEXT] = ",";
    (void)tt_buf_append(row, text, 1 + tt_number_f64(x, text + 1));
}

static void put_count(tt_buf *row, int64_t x)
{
    (void)tt_buf_append(row, ",", 1);
    (void)tt_buf_int(row, x);
}

static void put_csv(tt_buf *row, const char *site, int32_t rank, const tt_point *p)
{
    static const char *const phases[] = { ",", ",train", ",eval" };
    (void)tt_buf_append(row, "\"", 1);
    for (const char *rest = site; *rest != '\0';) {
        size_t n = strcspn(rest, "\"");
        (void)tt_buf_append(row, rest, n);
        if (rest[n] == '"')
            (void)tt_buf_append(row, "\"\"", 2);
        rest += n + (rest[n] == '"');
    }
    (void)tt_buf_append(row, "\"", 1);
    const int64_t where[] = { rank, p->step, p->call, p->time };
    for (size_t i = 0; i < sizeof where / sizeof where[0]; i++)
        put_count(row, where[i]);
    (void)tt_buf_text(row, phases[p->phase < TT_PHASE_COUNT_ ? p->phase : 0]);
    if ((p->products & TT_PRODUCT_SCALAR) != 0)
        put_number(row, p->scalar);
    else
        (void)tt_buf_append(row, ",", 1);
    if ((p->products & TT_PRODUCT_STATS) == 0) {
        (void)tt_buf_text(row, ",,,,,,,,,,,,,,,\n");
        return;
    }
    tt_numbers n = tt_json_numbers(p);
    const char *dtype = tt_json_dtype(p);
    (void)tt_buf_append(row, ",", 1);
    (void)tt_buf_text(row, dtype != NULL ? dtype : "");
    (void)tt_buf_append(row, ",", 1);
    for (int32_t d = 0; d < p->ndim; d++) {
        (void)tt_buf_append(row, "x", d > 0);
        (void)tt_buf_int(row, p->shape[d]);
    }
    for (size_t i = 0; i < TT_COUNTS; i++)
        put_count(row, n.counts[i]);
    for (size_t i = 0; i < TT_NUMBERS - 1; i++) /* the last one, rms, follows from l2 */
        put_number(row, n.numbers[i]);
    (void)tt_buf_append(row, "\n", 1);
}

/* Where the points go. */
typedef struct sink {
    tt_json *json;     /* NULL: csv */
    tt_buf row;        /* owned; of csv */
    tt_hist_bin *bins; /* owned; of the point's histogram */
    size_t cap;
} sink;

tt_status tt_export_bins(tt_run *run, int32_t file, int32_t site, int64_t index, tt_hist_bin **bins,
                         size_t *cap, size_t *count, tt_error *err)
{
    tt_status st = tt_run_hist(run, file, site, index, *bins, *cap, count, err);
    if (st < 0 || *count <= *cap)
        return st;
    if (tt_grow(bins, cap, *count, sizeof **bins) < 0)
        return TT_ENOMEM;
    return tt_run_hist(run, file, site, index, *bins, *cap, count, err);
}

static tt_status put_point(const tt_export *what, int32_t file, int32_t site, int64_t index,
                           const tt_point *p, void *context, tt_error *err)
{
    sink *to = context;
    tt_json *json = to->json;
    const char *name = tt_run_site_name(what->run, site);
    int32_t rank = tt_overview_whose(what->run, file);
    size_t count = 0;
    bool has_hist = json != NULL && (p->products & TT_PRODUCT_HIST) != 0;
    tt_status st =
        has_hist ? tt_export_bins(what->run, file, site, index, &to->bins, &to->cap, &count, err) : TT_OK;
    if (st < 0)
        return st;
    if (json == NULL) {
        tt_buf_clear(&to->row);
        put_csv(&to->row, name, rank, p); /* a row has no room for a histogram */
        if (to->row.st == TT_OK)
            (void)fwrite(to->row.data, 1, to->row.len, stdout); /* main looks for failures */
        return to->row.st;
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
    tt_json *json = is_json ? tt_json_begin_schema("points") : NULL;
    if (!is_json)
        puts("site,rank,step,call,time,phase,value,dtype,shape,count,nan,posinf,neginf,zeros,min,max,"
             "absmax,sum,mean,std,l1,l2");
    sink to = { .json = json };
    st = tt_export_visit(what, put_point, &to, err);
    free(to.bins);
    tt_buf_free(&to.row);
    if (is_json)
        st = tt_json_end(st);
    if (is_file && (fflush(stdout) != 0 || ferror(stdout) != 0) && st == TT_OK)
        st = tt_fail(err, TT_EIO, "%.150s: %s", what->out, strerror(errno));
out:
    st = tt_output_close(output, st, err);
    if (is_file && st < 0)
        (void)freopen("/dev/null", "we", stdout); /* said once */
    return st;
}

/* ---- values ------------------------------------------------------------------------ */

typedef struct kept {
    char *name; /* owned; of the site, and the step where there are several */
    tt_value value;
} kept;

typedef struct list {
    kept *items; /* owned */
    size_t count, cap;
    int64_t gone;  /* evicted values */
    int64_t bytes; /* of all values, unpacked */
} list;

static void free_list(list *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i].name);
    free(all->items);
}

/* Reads a value; *bytes is owned by the caller. */
static tt_status read_value(const tt_export *what, const tt_value *value, void **bytes, tt_tensor *out,
                            tt_error *err)
{
    void *data = malloc((size_t)value->bytes + 1);
    if (data == NULL)
        return TT_ENOMEM;
    tt_status st = tt_run_value_read(what->run, value, data, err);
    if (st == TT_OK)
        st = tt_tensor_describe(out, data, value->dtype, value->ndim, value->shape, NULL, err);
    if (st == TT_OK)
        *bytes = data;
    else
        free(data);
    return st;
}

static tt_status add_value(const tt_export *what, int32_t file, int32_t site, int64_t index,
                           const tt_point *p, void *context, tt_error *err)
{
    list *all = context;
    (void)index;
    if (p->value_at <= 0)
        return TT_OK;
    if (tt_grow(&all->items, &all->cap, all->count + 1, sizeof *all->items) < 0)
        return TT_ENOMEM;
    kept *item = &all->items[all->count];
    tt_error why = { "" };
    tt_status st = tt_run_value_find(what->run, file, p->value_at, &item->value, &why);
    if (st == TT_EMISMATCH) {
        all->gone++;
        return TT_OK;
    }
    if (st == TT_OK && what->is_partial) { /* a list may name only what can be read */
        void *bytes = NULL;
        tt_tensor t;
        st = read_value(what, &item->value, &bytes, &t, &why);
        free(bytes);
    }
    if (st < 0)
        return tt_fail(err, st, "%s", why.text);
    bool has_files = tt_run_file_count(what->run) > 1;
    int rank = tt_overview_file(what->run, file).rank;
    if (asprintf(&item->name, "%s@%" PRId64 "%s%s", tt_run_site_name(what->run, site), p->step,
                 p->call > 0 ? tt_screen_text(".%u", p->call) : "",
                 has_files ? tt_screen_text("@rank%d", rank) : "") < 0)
        return TT_ENOMEM;
    all->count++;
    if (__builtin_add_overflow(all->bytes, item->value.bytes, &all->bytes))
        all->bytes = INT64_MAX;
    return TT_OK;
}

static tt_status list_values(const tt_export *what, list *all, tt_error *err)
{
    tt_status st = tt_export_visit(what, add_value, all, err);
    if (st == TT_OK && all->count == 0)
        st = tt_fail(err, TT_EMISMATCH,
                     "no values were kept for these sites; record them with keep=\"value\", or export "
                     "statistics with --to csv");
    if (st == TT_OK && tt_run_outgrows(what->run, all->bytes))
        st = tt_fail(err, TT_ELIMIT,
                     "these values take %s, and the run only %s: refused; choose fewer of them with GLOB "
                     "and --step, or read one with tt.open(RUN).tensor()",
                     tt_screen_bytes(all->bytes), tt_screen_bytes(tt_run_totals(what->run).bytes));
    return st;
}

tt_status tt_export_weigh_values(const tt_export *what, tt_error *err)
{
    list all = { 0 };
    tt_status st = list_values(what, &all, err);
    free_list(&all);
    return st;
}

/* A name as a file name: nothing that leaves the folder, or hides, or is too long for
 * one; what is cut is the middle, because the step stands at the end. */
static void make_safe(char *name)
{
    enum { HEAD = 130, TAIL = 70 };
    for (char *at = name; *at != '\0'; at++)
        if (*at == '/' || (unsigned char)*at < 0x20 || *at == 0x7f || (at == name && *at == '.'))
            *at = '_';
    size_t len = strlen(name);
    if (len > HEAD + TAIL)
        memmove(name + HEAD, name + len - TAIL, TAIL + 1);
}

static int by_name(const void *a, const void *b)
{
    const kept *x = *(const kept *const *)a, *y = *(const kept *const *)b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x > y) - (x < y);
}

/* Two may have the same name: a/b and a_b as files, those of a process and of its child.
 * The second gets a ~2. */
static tt_status make_unique(list *all)
{
    kept **sorted = calloc(all->count + 1, sizeof(kept *));
    if (sorted == NULL)
        return TT_ENOMEM;
    for (size_t i = 0; i < all->count; i++)
        sorted[i] = &all->items[i];
    if (all->count > 0)
        qsort(sorted, all->count, sizeof *sorted, by_name);
    tt_status st = TT_OK;
    for (size_t i = 1, first = 0; st == TT_OK && i < all->count; i++) {
        char *other = NULL;
        if (strcmp(sorted[i]->name, sorted[first]->name) != 0) {
            first = i;
        } else if (asprintf(&other, "%s~%zu", sorted[first]->name, i - first + 1) < 0) {
            st = TT_ENOMEM;
        } else {
            free(sorted[i]->name);
            sorted[i]->name = other;
        }
    }
    free(sorted);
    return st;
}

tt_status tt_export_values(const tt_export *what, tt_error *err)
{
    list all = { 0 };
    tt_entry *entries = NULL;    /* owned */
    tt_safetensors *file = NULL; /* owned; NULL: a file of its own for each value */
    tt_status st = list_values(what, &all, err);
    size_t len = strlen(what->out);
    bool is_npy = strcmp(what->format, "npy") == 0;
    bool is_file = !is_npy || (all.count == 1 && len > 4 && strcmp(what->out + len - 4, ".npy") == 0);
    if (st == TT_OK && !is_file && mkdir(what->out, 0777) < 0 && errno != EEXIST)
        st = tt_fail(err, TT_EIO, "%.150s: %s", what->out, strerror(errno));
    for (size_t i = 0; is_npy && i < all.count; i++)
        make_safe(all.items[i].name);
    if (st == TT_OK)
        st = make_unique(&all);
    if (st == TT_OK && (entries = calloc(all.count + 1, sizeof *entries)) == NULL)
        st = TT_ENOMEM;
    for (size_t i = 0; st == TT_OK && i < all.count; i++) {
        const tt_value *value = &all.items[i].value;
        entries[i] = (tt_entry){ all.items[i].name, value->dtype, value->ndim, value->shape };
    }
    if (st == TT_OK && !is_npy)
        st = tt_safetensors_create(what->out, entries, all.count, &file, err);
    for (size_t i = 0; st == TT_OK && i < all.count; i++) {
        void *bytes = NULL;
        tt_tensor t;
        char *path = NULL;
        if (asprintf(&path, is_file ? "%s" : "%s/%s.npy", what->out, all.items[i].name) < 0) {
            st = TT_ENOMEM;
            break;
        }
        st = read_value(what, &all.items[i].value, &bytes, &t, err);
        if (st == TT_OK)
            st = is_npy ? tt_file_save(path, TT_FORMAT_NPY, &t, NULL, err)
                        : tt_safetensors_put(file, &t, err);
        free(bytes);
        free(path);
        tt_progress_tell((int64_t)i + 1, (int64_t)all.count);
    }
    tt_error ignored;
    tt_status closed = tt_safetensors_close(file, st == TT_OK ? err : &ignored);
    st = st == TT_OK ? closed : st;
    if (st == TT_OK && all.gone > 0)
        fprintf(stderr, "tensortap: %" PRId64 " values were evicted to stay within max_bytes\n",
                all.gone);
    free(entries);
    free_list(&all);
    return st;
}
