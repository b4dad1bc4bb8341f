/* page.c -- a page about one run or two: reads what it shows, and follows runs that grow.
 *
 * Exists so that the file that `report` writes and the data that `serve` sends are the same: bins
 * over the steps, read once.  docs/ARCHITECTURE.md says how they are laid out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include "base/clock.h"
#include "store/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_BINS = 2048, /* of a curve */
    TENSOR_COLUMNS = 7,
    OVERLAY_COLUMNS = 2, /* rms alone */
    NUMBER_CELLS = 1 << 17,
    TENSOR_BINS = 1024,     /* of a tensor */
    TENSOR_CELLS = 3 << 19, /* of a served page: 36 bytes each */
};

/* Bytes of text that a number of a tensor takes at least in a page that is a file. */
static const double TEXT_BYTES = 1.6;

const char *tt_page_sort_name(tt_page_sort sort)
{
    return sort == TT_PAGE_NUMBERS ? "numbers" : "tensors";
}

/* Shows all ranks as one, if the run says where its tensors belong. */
static tt_status join_ranks(tt_page_source *s, tt_error *err)
{
    tt_error why;
    tt_run *joined = NULL;
    tt_status st = tt_run_join(s->about->run, &joined, &why);
    if (st != TT_OK && st != TT_EMISMATCH) {
        if (err != NULL)
            *err = why;
        return st;
    }
    tt_run_close(s->joined);
    s->joined = joined;
    s->run = joined != NULL ? joined : s->about->run;
    tt_run_join_all(s->run); /* all sites will be read */
    return TT_OK;
}

tt_status tt_page_open(const tt_page_run *runs, size_t count, bool is_private, tt_page **out,
                       tt_error *err)
{
    if (count < 1 || count > TT_PAGE_RUNS_MOST)
        return tt_fail(err, TT_EINVAL, "a page is of one run or up to %d", (int)TT_PAGE_RUNS_MOST);
    tt_page *page = calloc(1, sizeof *page);
    if (page == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    page->count = count;
    page->is_private = is_private;
    /* A cursor of an earlier page about the same runs is older than this one's. */
    page->generation = page->first = (uint64_t)tt_clock_now() / 1000000;
    for (size_t i = 0; i < count; i++)
        page->sources[i] = (tt_page_source){ .about = &runs[i], .run = runs[i].run };
    tt_status st = TT_OK;
    for (size_t i = 0; st == TT_OK && i < count; i++)
        st = join_ranks(&page->sources[i], err);
    if (st < 0) {
        tt_page_close(page);
        return st;
    }
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
            free(s->files[f].progress);
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
    for (size_t i = 0; i < page->count; i++) {
        free(page->sources[i].latest);
        tt_histories_free(page->sources[i].seen);
        tt_run_close(page->sources[i].joined);
    }
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

/* Finds the progress of a site that has points which were not read; NULL: it has none. */
static tt_status find_progress(tt_page_source *s, int32_t file, int32_t site, tt_page_progress **out)
{
    const tt_index_site *row = tt_run_row(s->run, file, site);
    *out = NULL;
    if (row == NULL || row->count == 0)
        return TT_OK;
    tt_status st = grow_zeroed(&s->files, &s->files_cap, (size_t)file, sizeof *s->files);
    tt_page_file *of = st == TT_OK ? &s->files[file] : NULL;
    if (st == TT_OK)
        st = grow_zeroed(&of->progress, &of->cap, (size_t)site, sizeof *of->progress);
    if (st < 0)
        return st;
    tt_page_progress *progress = &of->progress[site];
    if (!progress->has_sort && site < s->looked && s->latest[site].file >= 0) {
        progress->has_sort = true; /* once and for all: its series have numbers */
        progress->is_tensor = !is_number(&s->latest[site]);
    }
    if (progress->has_sort &&
        row->chunks[row->count - 1].first + row->chunks[row->count - 1].n > progress->points)
        *out = progress;
    return TT_OK;
}

static tt_status read_points(tt_page *page, tt_page_source *s, tt_page_sort sort)
{
    tt_status st = TT_OK;
    for (int32_t site = 0; st == TT_OK && site < s->looked; site++)
        for (int32_t f = 0; st == TT_OK && f < tt_run_file_count(s->run); f++) {
            tt_page_progress *progress;
            st = find_progress(s, f, site, &progress);
            if (st == TT_OK && progress != NULL && progress->is_tensor == (sort == TT_PAGE_TENSORS))
                st = tt_page_bins_add(&s->bins[sort], &page->axis, s->run, f, site, progress, &s->lost);
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
        return (size_t)fmin(NUMBER_BINS, (double)(NUMBER_CELLS / (series + 1) + TT_PAGE_BINS_LEAST));
    int across = tt_page_is_overlay(page) ? OVERLAY_COLUMNS : TENSOR_COLUMNS;
    double cells = page->room > 0 ? (double)page->room / (across * TEXT_BYTES) : TENSOR_CELLS;
    return (size_t)fmin(TENSOR_BINS, fmax(cells / (double)(series + 1), TT_PAGE_BINS_LEAST));
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
            tt_page_progress *progress;
            st = find_progress(s, f, site, &progress);
            if (st == TT_OK && progress != NULL)
                st = tt_page_axis_follow(&page->axis, s->run, f, site, progress);
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
            must |= page->is_read[sort] && bins->room > TT_PAGE_BINS_LEAST &&
                    bins->count * bins->room >
                        2 * (sort == TT_PAGE_TENSORS ? (size_t)TENSOR_CELLS : (size_t)NUMBER_CELLS);
        }
    return must;
}

/* Reads what was written.  Ranks that were joined are joined anew: what one of them lacked may be there now. */
static tt_status refresh(tt_page *page, tt_page_source *s, bool *is_anew, tt_error *err)
{
    tt_run *files = s->about->run;
    int64_t before = tt_run_totals(files).points, inserted = tt_run_insertions(files);
    int32_t count = tt_run_file_count(files);
    tt_status st = tt_run_refresh(files, err);
    bool has_grown = tt_run_totals(files).points != before || tt_run_file_count(files) != count;
    *is_anew |= tt_run_insertions(files) != inserted; /* numbers of points have changed */
    if (st < 0 || !has_grown || count < 2)
        return st;
    tt_diff_free(page->diff); /* it has names of the joined run */
    page->diff = NULL;
    bool was_joined = s->joined != NULL;
    st = join_ranks(s, err);
    *is_anew |= was_joined || s->joined != NULL;
    return st;
}

tt_status tt_page_follow(tt_page *page, tt_error *err)
{
    tt_status st = TT_OK;
    bool is_anew = false;
    for (size_t i = 0; st == TT_OK && i < page->count; i++)
        st = refresh(page, &page->sources[i], &is_anew, err);
    if (st < 0 || !page->has_axis)
        return st;
    for (size_t i = 0; st == TT_OK && is_anew && i < page->count; i++) {
        page->sources[i].looked = 0;
        st = look_further(&page->sources[i], err);
    }
    if (is_anew) {
        forget(page);
        return st;
    }
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
    if (page->count != 2 || page->diff != NULL)
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
    if (page->count > 1 && bins->times != NULL) {
        tt_json_open(json, "times", '['); /* ms since the first; -1: no point */
        for (size_t i = from; i < bins->bins; i++)
            tt_json_i64(json, NULL,
                        bins->times[i] < INT64_MAX ? (bins->times[i] - bins->started) / 1000000 : -1);
        tt_json_close(json);
    }
    tt_json_i64(json, "last", axis->count > 0 ? axis->steps[axis->count - 1] : 0);
    tt_json_open(json, "series", '[');
    for (size_t i = series; i < bins->count; i++) {
        const tt_page_series *s = &bins->series[i];
        tt_json_ints(json, NULL, (const int64_t[]){ s->site, s->file, s->is_eval }, 3);
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
