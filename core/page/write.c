/* write.c -- a run as one HTML file that needs nothing else.
 *
 * Exists so that people can look at a run, and send it, without a server.  The page itself, its
 * style and its scripts are in web/ and are embedded by the build (assets.h); here their data
 * are put in: facts that the page shows at once, then tables and columns that it unpacks when
 * it draws them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "page/assets.h"
#include "page/page.h"

#include <stdio.h>

enum {
    SMALL_BYTES = 400 << 10, /* of the data of a small run, as text ... */
    BYTES_OF_SITE = 3200,    /* ... and more for each site ... */
    MOST_BYTES = 3600 << 10, /* ... up to this ... */
    OVERLAY_BYTES = 6 << 20, /* ... or of many runs to this */
};

/* Appends the page around its facts, and data that it may have in it. */
static tt_status put_page(const tt_buf *facts, const tt_buf *data, bool is_served, tt_buf *out)
{
    (void)tt_buf_append(out, tt_page_start, tt_page_start_len);
    (void)tt_buf_text(out, is_served ? "'self'" : "'none'"); /* where it may get data from */
    (void)tt_buf_append(out, tt_page_head, tt_page_head_len);
    (void)tt_page_put_json(out, facts);
    (void)tt_buf_append(out, tt_page_middle, tt_page_middle_len);
    if (data != NULL && data->len > 0)
        (void)tt_buf_append(out, data->data, data->len);
    return tt_buf_append(out, tt_page_tail, tt_page_tail_len);
}

tt_status tt_page_wrap(const tt_buf *facts, tt_buf *out)
{
    return put_page(facts, NULL, true, out);
}

tt_status tt_page_first(tt_page *page, tt_buf *out, tt_error *err)
{
    tt_buf facts = { 0 };
    tt_status st = tt_page_put_facts(page, false, &facts, err);
    if (st == TT_OK)
        st = tt_page_wrap(&facts, out);
    tt_buf_free(&facts);
    return st;
}

/* ---- data in the page ------------------------------------------------------------------ */

static tt_status put_columns(tt_buf *out, const tt_page_bins *bins, size_t number, const char *sort,
                             size_t bytes, bool is_overlay)
{
    char name[64];
    tt_buf planes = { 0 };
    if (bins->count * bins->bins == 0)
        return out->st;
    for (tt_page_column c = 0; c <= TT_PAGE_COLUMN_COUNT_; c++) {
        bool is_bad = c == TT_PAGE_COLUMN_COUNT_;
        if (!is_bad && (bins->cells[c] == NULL || tt_page_column_is_same(bins, c)))
            continue;
        if (is_overlay && bins->has_tensors && !is_bad && c != TT_PAGE_RMS && c != TT_PAGE_RMS_LOW)
            continue;
        tt_buf_clear(&planes);
        (void)snprintf(name, sizeof name, "%zu/%s/%s", number, sort,
                       is_bad ? "bad" : tt_page_column_name(c));
        (void)tt_page_put_column(&planes, bins, c, 0, bytes);
        (void)tt_page_put_block(out, name, &planes);
    }
    tt_buf_free(&planes);
    return out->st;
}

/* Columns of all runs, with as many bytes for a number, then as many bins, as fit. */
static tt_status put_all_columns(tt_buf *out, tt_page *page, size_t room, size_t *bytes)
{
    size_t start = out->len;
    bool is_overlay = tt_page_is_overlay(page);
    const tt_page_bins *first = &page->sources[0].bins[TT_PAGE_TENSORS];
    tt_status st = TT_OK;
    /* Digits matter where a bin is a single step. */
    *bytes = first->width > 1 ? 2 : 4;
    for (;;) {
        for (size_t i = 0; i < page->count; i++) {
            const tt_page_bins *bins = page->sources[i].bins;
            (void)put_columns(out, &bins[TT_PAGE_NUMBERS], i, "numbers",
                              tt_page_number_bytes(&bins[TT_PAGE_NUMBERS]), is_overlay);
            st = put_columns(out, &bins[TT_PAGE_TENSORS], i, "tensors", *bytes, is_overlay);
        }
        bool is_least = *bytes == 2 && first->bins <= TT_PAGE_BINS_LEAST;
        if (st < 0 || out->len - start <= room || is_least)
            return st;
        tt_buf_cut(out, start);
        if (*bytes > 2)
            --*bytes;
        else
            for (size_t i = 0; i < page->count; i++)
                tt_page_bins_halve(&page->sources[i].bins[TT_PAGE_TENSORS]);
    }
}

/* Which steps the columns are of, and which sites. */
static tt_status put_series(tt_buf *out, const tt_page *page, size_t number, size_t bytes)
{
    tt_buf text = { 0 };
    tt_json json = { .out = &text, .is_compact = true };
    char name[32];
    tt_json_open(&json, NULL, '{');
    tt_page_put_bins(&json, page, number, TT_PAGE_NUMBERS, 0, 0,
                     tt_page_number_bytes(&page->sources[number].bins[TT_PAGE_NUMBERS]));
    tt_page_put_bins(&json, page, number, TT_PAGE_TENSORS, 0, 0, bytes);
    tt_json_close(&json);
    tt_status st = tt_json_finish(&json);
    (void)snprintf(name, sizeof name, "%zu/series", number);
    if (st == TT_OK)
        st = tt_page_put_block(out, name, &text);
    tt_buf_free(&text);
    return st;
}

/* Puts a text that the server would send on its own into the page. */
static tt_status put_text(tt_page *page, const char *name, tt_buf *out, tt_error *err)
{
    tt_buf text = { 0 };
    tt_status st = tt_page_block(page, name, &text, err);
    if (st == TT_OK)
        st = tt_page_put_block(out, name, &text);
    tt_buf_free(&text);
    return st;
}

static tt_status put_text_of(tt_page *page, size_t number, const char *what, tt_buf *out, tt_error *err)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%zu/%s", number, what);
    return put_text(page, name, out, err);
}

static tt_status put_data(tt_page *page, size_t room, tt_buf *out, tt_error *err)
{
    size_t bytes = 4;
    tt_status st = tt_page_read(page, TT_PAGE_NUMBERS, err);
    if (st == TT_OK)
        st = tt_page_read(page, TT_PAGE_TENSORS, err);
    for (size_t i = 0; st == TT_OK && i < page->count; i++)
        st = put_text_of(page, i, "table", out, err);
    for (size_t i = 0; st == TT_OK && i < page->count && !tt_page_is_overlay(page); i++)
        st = put_text_of(page, i, "charts", out, err);
    if (st == TT_OK && page->count == 2)
        st = put_text(page, "diff", out, err);
    if (st == TT_OK)
        st = put_all_columns(out, page, room > out->len ? room - out->len : 1, &bytes);
    for (size_t i = 0; st == TT_OK && i < page->count; i++)
        st = put_series(out, page, i, bytes);
    return st;
}

/* Puts a few sites as each rank has them: those of the findings, and the losses. */
static tt_status put_ranks(tt_page *page, tt_buf *out, tt_error *err)
{
    tt_page_source *s = &page->sources[0];
    tt_status st = TT_OK;
    for (int32_t site = 0; site < tt_run_site_count(s->run); site++)
        if (s->suspect_count < TT_PAGE_SUSPECTS &&
            tt_glob_match("loss/*,loss,train_loss", tt_run_site_name(s->run, site)))
            s->suspects[s->suspect_count++] = site;
    for (size_t i = 0; s->joined != NULL && st == TT_OK && i < s->suspect_count; i++) {
        char name[32];
        bool is_there = false;
        for (size_t k = 0; k < i; k++)
            is_there |= s->suspects[k] == s->suspects[i];
        (void)snprintf(name, sizeof name, "0/ranks/%d", (int)s->suspects[i]);
        if (!is_there)
            st = put_text(page, name, out, err);
    }
    return st;
}

tt_status tt_page_write(const tt_page_run *runs, size_t count, bool is_private, tt_buf *out,
                        tt_error *err)
{
    tt_page *page = NULL; /* owned */
    tt_buf data = { 0 }, facts = { 0 };
    tt_status st = tt_page_open(runs, count, is_private, &page, err);
    if (st < 0)
        return st;
    size_t room = SMALL_BYTES;
    for (size_t i = 0; i < count; i++)
        room += BYTES_OF_SITE * (size_t)tt_run_shown_count(runs[i].run, NULL);
    size_t most = tt_page_is_overlay(page) ? OVERLAY_BYTES : MOST_BYTES;
    room = room < most ? room : most;
    page->room = room - room / 16; /* the tables need some */
    st = put_data(page, room, &data, err);
    if (st == TT_OK)
        st = tt_page_put_facts(page, true, &facts, err);
    if (st == TT_OK && !tt_page_is_overlay(page))
        st = put_ranks(page, &data, err);
    if (st == TT_OK)
        st = put_page(&facts, &data, false, out);
    tt_buf_free(&data);
    tt_buf_free(&facts);
    tt_page_close(page);
    return st < 0 && err != NULL && err->text[0] == '\0' ? tt_fail_plain(err, st) : st;
}
