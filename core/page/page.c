/* page.c -- a page about one run or two: reads what it shows, and follows runs that grow.
 *
 * Exists so that the file that `report` writes and the data that `serve` sends are the same: bins
 * over the steps, read once.  docs/ARCHITECTURE.md says how they are laid out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include "base/clock.h"
#include "base/wire.h"
#include "page/encode.h"
#include "page/finding.h"
#include "page/site.h"
#include "store/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BINS_LEAST = 16,
    NUMBER_BINS = 2048, /* of a curve */
    NUMBER_CELLS = 1 << 17,
    TENSOR_BINS = 1024,     /* of a tensor */
    TENSOR_CELLS = 3 << 19, /* of a served page: 36 bytes each */
    TENSOR_COLUMNS = 7,
};

/* Bytes of text that a number of a tensor takes at least in a page that is a file. */
static const double TEXT_BYTES = 1.6;

const char *tt_page_sort_name(tt_page_sort sort)
{
    return sort == TT_PAGE_NUMBERS ? "numbers" : "tensors";
}

tt_status tt_page_open(const tt_page_run *runs, size_t count, const tt_page_options *options,
                       tt_page **out, tt_error *err)
{
    if (count != 1 && count != 2)
        return tt_fail(err, TT_EINVAL, "a page is of one run or two");
    tt_page *page = calloc(1, sizeof *page);
    if (page == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    page->count = count;
    page->options = *options;
    /* A cursor of an earlier page about the same runs is older than this one's. */
    page->generation = page->first = (uint64_t)tt_clock_now() / 1000000;
    for (size_t i = 0; i < count; i++)
        page->sources[i] = (tt_page_source){ .about = &runs[i], .run = runs[i].run };
    *out = page;
    return TT_OK;
}

/* Forgets what has been read. */
static void forget(tt_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        tt_page_source *s = &page->sources[i];
        for (size_t sort = 0; sort < TT_PAGE_SORT_COUNT_; sort++)
            tt_page_bins_free(&s->bins[sort]);
        for (size_t f = 0; f < s->files_cap; f++)
            free(s->files[f].places);
        free(s->files);
        s->files = NULL;
        s->files_cap = 0;
        s->lost = 0;
    }
    tt_page_axis_free(&page->axis);
    page->has_axis = page->is_read[TT_PAGE_NUMBERS] = page->is_read[TT_PAGE_TENSORS] = false;
    page->first = ++page->generation;
}

void tt_page_close(tt_page *page)
{
    if (page == NULL)
        return;
    forget(page);
    for (size_t i = 0; i < page->count; i++)
        free(page->sources[i].latest);
    tt_diff_free(page->diff);
    free(page);
}

/* ---- looking at sites ---------------------------------------------------------- */

/* Looks at the sites that have not been looked at. */
static tt_status look_further(tt_page_source *s, tt_error *err)
{
    const tt_look look = { .rank = -1 };
    int32_t sites = tt_run_site_count(s->run);
    tt_status st = tt_grow(&s->latest, &s->latest_cap, (size_t)sites + 1, sizeof *s->latest);
    for (; st == TT_OK && s->looked < sites; s->looked++) {
        tt_latest *latest = &s->latest[s->looked];
        *latest = (tt_latest){ .file = -1 };
        const char *name = tt_run_site_name(s->run, s->looked);
        if (tt_site_is_shown(name, NULL) || tt_glob_match("tensortap/update/*", name))
            st = tt_run_look(s->run, s->looked, &look, latest, err);
        st = st == TT_EFORMAT ? TT_OK : st; /* damaged: the site is left out */
    }
    return tt_fail_plain(err, st);
}

tt_status tt_page_look(tt_page *page, tt_error *err)
{
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && page->looked_at != page->generation && i < page->count; i++) {
        page->sources[i].looked = 0;
        st = look_further(&page->sources[i], err);
    }
    page->looked_at = st == TT_OK ? page->generation : 0;
    return st;
}

static bool is_number(const tt_latest *latest)
{
    return (latest->latest.products & TT_PRODUCT_STATS) == 0 || latest->latest.stats.count == 1;
}

/* ---- reading points ---------------------------------------------------------------- */

/* Zeroed room for element i of an array. */
static tt_status grow_zeroed(void *array, size_t *cap, size_t i, size_t size)
{
    size_t before = *cap;
    tt_status st = tt_grow(array, cap, i + 1, size);
    if (st == TT_OK && *cap > before)
        memset(*(char **)array + before * size, 0, (*cap - before) * size);
    return st;
}

/* Finds the place of a site that has points which were not read; NULL: it has none. */
static tt_status find_place(tt_page_source *s, int32_t file, int32_t site, tt_page_place **out)
{
    const tt_index_site *row = tt_run_row(s->run, file, site);
    *out = NULL;
    if (row == NULL || row->count == 0)
        return TT_OK;
    tt_status st = grow_zeroed(&s->files, &s->files_cap, (size_t)file, sizeof *s->files);
    tt_page_file *of = st == TT_OK ? &s->files[file] : NULL;
    if (st == TT_OK)
        st = grow_zeroed(&of->places, &of->cap, (size_t)site, sizeof *of->places);
    if (st < 0)
        return st;
    tt_page_place *place = &of->places[site];
    if (!place->has_sort && site < s->looked && s->latest[site].file >= 0) {
        place->has_sort = true; /* once and for all: its series have numbers */
        place->is_tensor = !is_number(&s->latest[site]);
    }
    if (place->has_sort &&
        row->chunks[row->count - 1].first + row->chunks[row->count - 1].n > place->points)
        *out = place;
    return TT_OK;
}

static tt_status read_points(tt_page *page, tt_page_source *s, tt_page_sort sort)
{
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < s->looked; site++)
        for (int32_t f = 0; st == TT_OK && f < tt_run_file_count(s->run); f++) {
            tt_page_place *place;
            st = find_place(s, f, site, &place);
            if (st == TT_OK && place != NULL && place->is_tensor == (sort == TT_PAGE_TENSORS))
                st = tt_page_bins_add(&s->bins[sort], &page->axis, s->run, f, site, place, &s->lost);
        }
    return st;
}

/* As many bins as a series of the sort may have, so that all fit. */
static size_t most_bins(const tt_page *page, tt_page_sort sort)
{
    size_t series = 0;
    for (size_t i = 0; i < page->count; i++) {
        const tt_page_source *s = &page->sources[i];
        for (int32_t site = 0; site < s->looked; site++)
            for (int32_t f = 0; f < tt_run_file_count(s->run); f++)
                series += s->latest[site].file >= 0 && tt_run_points(s->run, f, site) > 0 &&
                          is_number(&s->latest[site]) == (sort == TT_PAGE_NUMBERS);
    }
    if (sort == TT_PAGE_NUMBERS)
        return (size_t)fmin(NUMBER_BINS, (double)(NUMBER_CELLS / (series + 1) + BINS_LEAST));
    double cells = page->room > 0 ? (double)page->room / (TENSOR_COLUMNS * TEXT_BYTES) : TENSOR_CELLS;
    return (size_t)fmin(TENSOR_BINS, fmax(cells / (double)(series + 1), BINS_LEAST));
}

tt_status tt_page_read(tt_page *page, tt_page_sort sort, tt_error *err)
{
    tt_status st = page->looked_at != 0 ? TT_OK : tt_page_look(page, err);
    for (size_t i = 0; st == TT_OK && !page->has_axis && i < page->count; i++)
        st = tt_page_axis_add(&page->axis, page->sources[i].run, err);
    page->has_axis |= st == TT_OK;
    if (st < 0 || page->is_read[sort])
        return st;
    size_t most = most_bins(page, sort);
    for (size_t i = 0; st == TT_OK && i < page->count; i++) {
        tt_page_bins *bins = &page->sources[i].bins[sort];
        tt_page_bins_init(bins, &page->axis, sort == TT_PAGE_TENSORS, most, page->room == 0);
        st = read_points(page, &page->sources[i], sort);
        bins->lowest = SIZE_MAX;
        bins->marked = bins->count;
    }
    page->is_read[sort] = st == TT_OK;
    return tt_fail_plain(err, st);
}

/* ---- following ------------------------------------------------------------------------ */

static tt_status follow_axis(tt_page *page, tt_page_source *s)
{
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < s->looked; site++)
        for (int32_t f = 0; st == TT_OK && f < tt_run_file_count(s->run); f++) {
            tt_page_place *place;
            st = find_place(s, f, site, &place);
            if (st == TT_OK && place != NULL)
                st = tt_page_axis_follow(&page->axis, s->run, f, site, place);
        }
    return st;
}

/* Must everything be read again?  A step that belongs between others would move single steps; too
 * many series would take too much memory. */
static bool must_restart(const tt_page *page)
{
    bool must = false;
    for (size_t i = 0; i < page->count; i++)
        for (size_t sort = 0; sort < TT_PAGE_SORT_COUNT_; sort++) {
            const tt_page_bins *bins = &page->sources[i].bins[sort];
            must |= page->is_read[sort] && page->axis.is_late && bins->width == 1;
            must |= page->is_read[sort] && bins->room > BINS_LEAST &&
                    bins->count * bins->room >
                        2 * (sort == TT_PAGE_TENSORS ? (size_t)TENSOR_CELLS : (size_t)NUMBER_CELLS);
        }
    return must;
}

tt_status tt_page_follow(tt_page *page, tt_error *err)
{
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && i < page->count; i++)
        st = tt_run_refresh(page->sources[i].run, err);
    if (st < 0 || !page->has_axis)
        return st;
    size_t steps = page->axis.count;
    for (size_t i = 0; st == TT_OK && i < page->count; i++) {
        st = look_further(&page->sources[i], err);
        if (st == TT_OK)
            st = follow_axis(page, &page->sources[i]);
    }
    if (st == TT_OK && must_restart(page)) {
        forget(page);
        return TT_OK;
    }
    page->axis.is_late = false;
    bool is_new = page->axis.count > steps;
    for (size_t i = 0; st == TT_OK && i < page->count; i++)
        for (tt_page_sort sort = 0; st == TT_OK && sort < TT_PAGE_SORT_COUNT_; sort++) {
            tt_page_bins *bins = &page->sources[i].bins[sort];
            if (!page->is_read[sort])
                continue;
            tt_page_bins_fit(bins, &page->axis);
            bins->lowest = is_new ? steps : SIZE_MAX; /* there are more bins */
            st = read_points(page, &page->sources[i], sort);
            is_new |= bins->lowest != SIZE_MAX;
        }
    if (st == TT_OK && is_new) {
        page->generation++;
        for (size_t i = 0; i < page->count; i++)
            for (size_t sort = 0; sort < TT_PAGE_SORT_COUNT_; sort++)
                tt_page_bins_mark(&page->sources[i].bins[sort], page->generation);
    }
    return tt_fail_plain(err, st);
}

tt_status tt_page_compare(tt_page *page, tt_error *err)
{
    if (page->count < 2 || page->diff != NULL)
        return TT_OK;
    tt_run *a = page->sources[0].run, *b = page->sources[1].run;
    tt_rename rename;
    const tt_diff_options how = { .last_step = INT64_MAX,
                                  .rename = tt_diff_guess_rename(a, b, &rename) ? &rename : NULL };
    return tt_diff_compute(a, b, &how, &page->diff, err);
}

/* ---- columns ---------------------------------------------------------------------------- */

void tt_page_put_bins(tt_json *json, const tt_page *page, size_t number, tt_page_sort sort, size_t from,
                      size_t series, size_t bytes)
{
    const tt_page_bins *bins = &page->sources[number].bins[sort];
    const tt_page_axis *axis = &page->axis;
    tt_json_open(json, tt_page_sort_name(sort), '{');
    tt_json_i64(json, "width", (int64_t)bins->width);
    tt_json_i64(json, "bytes", (int64_t)bytes);
    tt_json_i64(json, "from", (int64_t)from);
    tt_json_i64(json, "known", (int64_t)series);
    tt_json_open(json, "steps", '['); /* the first of each bin */
    for (size_t i = from * bins->width; i < axis->count; i += bins->width)
        tt_json_i64(json, NULL, axis->steps[i]);
    tt_json_close(json);
    tt_json_i64(json, "last", axis->count > 0 ? axis->steps[axis->count - 1] : 0);
    tt_json_open(json, "series", '[');
    for (size_t i = series; i < bins->count; i++) {
        tt_json_open(json, NULL, '[');
        tt_json_i64(json, NULL, bins->series[i].site);
        tt_json_i64(json, NULL, bins->series[i].file);
        tt_json_i64(json, NULL, bins->series[i].is_eval);
        tt_json_close(json);
    }
    tt_json_close(json);
    tt_json_close(json);
}

tt_status tt_page_put_column(tt_buf *out, const tt_page_bins *bins, tt_page_column column, size_t from,
                             size_t bytes)
{
    if (column < TT_PAGE_COLUMN_COUNT_)
        return bins->count == 0 || from == bins->bins
                   ? TT_OK
                   : tt_page_put_floats(out, bins->cells[column], bins->count, bins->room, from,
                                        bins->bins, bytes);
    for (size_t i = 0; i < bins->count; i++)
        (void)tt_buf_append(out, bins->bad + i * bins->room + from, bins->bins - from);
    return out->st;
}

bool tt_page_column_is_same(const tt_page_bins *bins, tt_page_column column)
{
    tt_page_column other = column == TT_PAGE_RMS_LOW ? TT_PAGE_RMS : TT_PAGE_VALUE;
    if (column != TT_PAGE_LOW && column != TT_PAGE_HIGH && column != TT_PAGE_RMS_LOW)
        return false;
    for (size_t i = 0; i < bins->count; i++)
        if (memcmp(bins->cells[column] + i * bins->room, bins->cells[other] + i * bins->room,
                   bins->bins * sizeof(float)) != 0)
            return false;
    return true;
}

/* ---- what a server sends ---------------------------------------------------------------- */

/* "0/numbers/value" */
typedef struct wanted {
    size_t run;
    tt_page_sort sort;
    tt_page_column column;
    bool is_new;
} wanted;

enum { WANTED_MOST = 64, NAME_MOST = 32 };

static bool parse_name(const char *text, size_t len, size_t runs, wanted *out)
{
    char name[NAME_MOST + 1];
    if (len > NAME_MOST || len < 2 || text[0] < '0' || text[0] >= '0' + (int)runs || text[1] != '/')
        return false;
    memcpy(name, text + 2, len - 2);
    name[len - 2] = '\0';
    char *slash = strchr(name, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    out->run = (size_t)(text[0] - '0');
    for (tt_page_sort sort = 0; sort < TT_PAGE_SORT_COUNT_; sort++)
        for (tt_page_column c = 0; c < TT_PAGE_COLUMN_COUNT_; c++)
            if (strcmp(name, tt_page_sort_name(sort)) == 0 &&
                strcmp(slash + 1, tt_page_column_name(c)) == 0 &&
                tt_page_column_is_of(c, sort == TT_PAGE_TENSORS)) {
                out->sort = sort;
                out->column = c;
                return true;
            }
    return false;
}

/* Names with commas between them. */
static tt_status parse_names(const char *text, size_t runs, bool is_new, wanted *out, size_t *count,
                             tt_error *err)
{
    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, ",");
        if (*count == WANTED_MOST || !parse_name(at, len, runs, &out[*count]))
            return tt_fail(err, TT_EINVAL, "no column '%.*s'", (int)(len < 80 ? len : 80), at);
        out[(*count)++].is_new = is_new;
        at += len + (at[len] == ',');
    }
    return TT_OK;
}

/* The first bin, and the first series, that has something new. */
static void find_new(const tt_page *page, const tt_page_bins *bins, uint64_t since, bool has_any,
                     size_t *from, size_t *series)
{
    *from = *series = 0;
    if (!has_any || since < page->first || since > page->generation ||
        page->generation - since >= TT_PAGE_MARKS)
        return;
    *from = bins->bins;
    *series = bins->count;
    for (uint64_t g = since + 1; g <= page->generation; g++) {
        size_t lowest = bins->marks[g % TT_PAGE_MARKS].lowest,
               count = bins->marks[g % TT_PAGE_MARKS].count;
        if (lowest != SIZE_MAX && lowest / bins->width < *from)
            *from = lowest / bins->width;
        *series = count < *series ? count : *series;
    }
}

static size_t bytes_of(const tt_page_bins *bins)
{
    return bins->width == 1 ? 4 : 3;
}

tt_status tt_page_data(tt_page *page, uint64_t since, const char *have, const char *add, tt_buf *out,
                       tt_error *err)
{
    wanted list[WANTED_MOST];
    size_t count = 0, from[2][TT_PAGE_SORT_COUNT_], series[2][TT_PAGE_SORT_COUNT_];
    bool is_known[2][TT_PAGE_SORT_COUNT_] = { { false } },
         is_asked[2][TT_PAGE_SORT_COUNT_] = { { false } };
    tt_status st = parse_names(have, page->count, false, list, &count, err);
    if (st == TT_OK)
        st = parse_names(add, page->count, true, list, &count, err);
    for (size_t i = 0; st == TT_OK && i < count; i++) {
        is_asked[list[i].run][list[i].sort] = true;
        is_known[list[i].run][list[i].sort] |= !list[i].is_new;
        st = tt_page_read(page, list[i].sort, err);
    }
    if (st < 0)
        return st;
    tt_buf text = { 0 };
    tt_json json = { .out = &text, .is_compact = true };
    tt_json_open(&json, NULL, '{');
    tt_json_i64(&json, "cursor", (int64_t)page->generation);
    tt_json_open(&json, "runs", '[');
    for (size_t i = 0; i < page->count; i++) {
        tt_json_open(&json, NULL, '{');
        tt_page_put_counts(&json, &page->sources[i]);
        for (tt_page_sort sort = 0; sort < TT_PAGE_SORT_COUNT_; sort++) {
            const tt_page_bins *bins = &page->sources[i].bins[sort];
            if (!is_asked[i][sort])
                continue;
            find_new(page, bins, since, is_known[i][sort], &from[i][sort], &series[i][sort]);
            tt_page_put_bins(&json, page, i, sort, from[i][sort], series[i][sort], bytes_of(bins));
        }
        tt_json_close(&json);
    }
    tt_json_close(&json);
    tt_json_open(&json, "columns", '[');
    tt_buf body = { 0 };
    for (size_t i = 0; i < count; i++) {
        const wanted *w = &list[i];
        const tt_page_bins *bins = &page->sources[w->run].bins[w->sort];
        if (bins->count == 0 || tt_page_column_is_same(bins, w->column))
            continue;
        char name[NAME_MOST + 1];
        (void)snprintf(name, sizeof name, "%zu/%s/%s", w->run, tt_page_sort_name(w->sort),
                       tt_page_column_name(w->column));
        tt_json_open(&json, NULL, '[');
        tt_json_text(&json, NULL, name);
        tt_json_i64(&json, NULL, w->is_new ? 0 : (int64_t)from[w->run][w->sort]);
        tt_json_close(&json);
        (void)tt_page_put_column(&body, bins, w->column, w->is_new ? 0 : from[w->run][w->sort],
                                 bytes_of(bins));
    }
    for (size_t i = 0; i < page->count; i++)
        for (size_t sort = 0; sort < TT_PAGE_SORT_COUNT_; sort++)
            if (is_asked[i][sort]) /* last, in the order of the runs */
                (void)tt_page_put_column(&body, &page->sources[i].bins[sort], TT_PAGE_COLUMN_COUNT_,
                                         from[i][sort], 1);
    tt_json_close(&json);
    tt_json_close(&json);
    st = tt_json_finish(&json);
    unsigned char len[4];
    tt_put_u32(len, (uint32_t)text.len);
    (void)tt_buf_append(out, len, sizeof len);
    (void)tt_buf_append(out, text.data, text.len);
    (void)tt_buf_append(out, body.data, body.len);
    st = st == TT_OK && body.st < 0 ? body.st : st == TT_OK ? out->st : st;
    tt_buf_free(&text);
    tt_buf_free(&body);
    return tt_fail_plain(err, st);
}

/* "0/site/17" */
static tt_status put_one_site(tt_page *page, size_t number, int32_t site, tt_buf *out, tt_error *err)
{
    const tt_look look = { .rank = -1 };
    tt_run *run = page->sources[number].run;
    tt_latest latest = { .file = -1 };
    tt_json json = { .out = out, .is_compact = true };
    tt_page_room room = { 1, 1 };
    if (site < 0 || site >= tt_run_site_count(run))
        return tt_fail(err, TT_EINVAL, "no site of that number");
    tt_status st = tt_run_look(run, site, &look, &latest, err);
    tt_json_open(&json, NULL, '{');
    if (st == TT_OK && latest.file >= 0)
        st = tt_page_put_site(&json, run, site, &latest, &room);
    tt_json_close(&json);
    return st == TT_OK ? tt_json_finish(&json) : st;
}

tt_status tt_page_block(tt_page *page, const char *name, tt_buf *out, tt_error *err)
{
    size_t number = name[0] == '1' ? 1 : 0;
    int site = -1, end = 0;
    if (strcmp(name, "facts") == 0)
        return tt_page_put_facts(page, true, out, err);
    if (strcmp(name, "diff") == 0 && page->count == 2)
        return tt_page_put_differences(page, out, err);
    bool has_run = name[0] >= '0' && name[0] < '0' + (int)page->count && name[1] == '/';
    if (has_run && strcmp(name + 2, "table") == 0)
        return tt_page_put_table(page, number, out, err);
    if (has_run && strcmp(name + 2, "charts") == 0)
        return tt_page_put_charts(page, number, out);
    if (has_run && strlen(name) < NAME_MOST && sscanf(name + 2, "site/%9d%n", &site, &end) == 1 &&
        name[2 + end] == '\0')
        return put_one_site(page, number, site, out, err);
    return tt_fail(err, TT_EINVAL, "no block '%.80s'", name);
}
