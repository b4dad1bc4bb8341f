/* response.c -- what a server sends of a page: columns from a cursor on, and texts.
 *
 * Columns have the layout that `report` embeds; docs/ARCHITECTURE.md describes it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/wire.h"
#include "page/page.h"

#include <stdio.h>
#include <string.h>

/* "0/numbers/value" */
typedef struct wanted {
    size_t run;
    tt_page_sort sort;
    tt_page_column column;
    bool is_new;
} wanted;

enum { WANTED_MOST = 8 * TT_PAGE_RUNS_MOST, NAME_MOST = 32 };

bool tt_page_find_source(const char *name, size_t runs, size_t *number, const char **rest)
{
    size_t digits = strspn(name, "0123456789");
    if (digits < 1 || digits > 2 || name[digits] != '/' || (digits == 2 && name[0] == '0'))
        return false;
    *number = (size_t)(name[0] - '0');
    if (digits == 2)
        *number = *number * 10 + (size_t)(name[1] - '0');
    *rest = name + digits + 1;
    return *number < runs;
}

static bool parse_name(const char *text, size_t len, size_t runs, wanted *out)
{
    char whole[NAME_MOST + 1];
    const char *name;
    if (len > NAME_MOST)
        return false;
    memcpy(whole, text, len);
    whole[len] = '\0';
    if (!tt_page_find_source(whole, runs, &out->run, &name))
        return false;
    char *slash = strchr(name, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
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

tt_status tt_page_data(tt_page *page, uint64_t since, const char *have, const char *add, tt_buf *out,
                       tt_error *err)
{
    wanted list[WANTED_MOST];
    size_t count = 0, from[TT_PAGE_RUNS_MOST][TT_PAGE_SORT_COUNT_],
           series[TT_PAGE_RUNS_MOST][TT_PAGE_SORT_COUNT_];
    bool is_known[TT_PAGE_RUNS_MOST][TT_PAGE_SORT_COUNT_] = { { false } },
         is_asked[TT_PAGE_RUNS_MOST][TT_PAGE_SORT_COUNT_] = { { false } };
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
            tt_page_put_bins(&json, page, i, sort, from[i][sort], series[i][sort],
                             tt_page_number_bytes(bins));
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
                                 tt_page_number_bytes(bins));
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

/* What is to be said of one run: every point of it is read. */
static tt_status put_answers(tt_page *page, size_t number, tt_buf *out, tt_error *err)
{
    tt_json json = { .out = out, .is_compact = true };
    tt_json_open(&json, NULL, '[');
    tt_status st = tt_page_put_answers(&json, &page->sources[number], (int32_t)number, err);
    tt_json_close(&json);
    return st == TT_OK ? tt_json_finish(&json) : st;
}

tt_status tt_page_block(tt_page *page, const char *name, tt_buf *out, tt_error *err)
{
    size_t number = 0;
    const char *what = "";
    int site = -1, end = 0;
    if (strcmp(name, "facts") == 0)
        return tt_page_put_facts(page, true, out, err);
    if (strcmp(name, "diff") == 0 && page->count == 2)
        return tt_page_put_differences(page, out, err);
    bool has_run = tt_page_find_source(name, page->count, &number, &what);
    if (has_run && strcmp(what, "answers") == 0)
        return put_answers(page, number, out, err);
    if (has_run && strcmp(what, "table") == 0)
        return tt_page_put_table(page, number, out, err);
    if (has_run && strcmp(what, "charts") == 0)
        return tt_page_put_charts(page, number, out);
    if (has_run && strlen(name) < NAME_MOST && sscanf(what, "site/%9d%n", &site, &end) == 1 &&
        what[end] == '\0')
        return put_one_site(page, number, site, out, err);
    if (has_run && strlen(name) < NAME_MOST && sscanf(what, "ranks/%9d%n", &site, &end) == 1 &&
        what[end] == '\0')
        return tt_page_put_ranks(page, number, site, out, err);
    return tt_fail(err, TT_EINVAL, "no block '%.80s'", name);
}
