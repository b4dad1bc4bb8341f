/* page.h -- a page about one run or several, while it is made or served.  For page only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_PAGE_PAGE_H
#define TT_PAGE_PAGE_H

#include "base/json.h"
#include "page/collect.h"

enum { TT_PAGE_BINS_LEAST = 16, TT_PAGE_SUSPECTS = 8 };

typedef enum tt_page_sort { TT_PAGE_NUMBERS, TT_PAGE_TENSORS, TT_PAGE_SORT_COUNT_ } tt_page_sort;

/* What has been read of one file of a run. */
typedef struct tt_page_file {
    tt_page_progress *progress; /* owned; of each site of the run */
    size_t cap;
} tt_page_file;

/* One run of a page. */
typedef struct tt_page_source {
    const tt_page_run *about; /* borrowed */
    tt_run *run;              /* what is shown: the whole job, or the files of `about` */
    tt_run *joined;           /* owned; NULL: its ranks cannot be joined */
    tt_latest *latest;        /* owned; of each site; file -1: it has no point, or is not shown */
    size_t latest_cap;
    int32_t looked;      /* sites in latest */
    tt_page_file *files; /* owned */
    size_t files_cap;
    tt_page_bins bins[TT_PAGE_SORT_COUNT_];
    int64_t lost;                       /* points that cannot be read */
    tt_histories *seen;                 /* owned; of the rules */
    int32_t suspects[TT_PAGE_SUSPECTS]; /* sites of the findings, the heaviest first */
    size_t suspect_count;
} tt_page_source;

struct tt_page {
    tt_page_source sources[TT_PAGE_RUNS_MOST];
    size_t count;
    bool is_private;
    size_t room; /* bytes of text that the columns may take; 0: the page is served */
    tt_page_axis axis;
    bool has_axis;
    bool is_read[TT_PAGE_SORT_COUNT_];
    uint64_t generation; /* counts the times that something new was read */
    uint64_t first;      /* the generation since which bins have only grown */
    uint64_t looked_at;  /* the generation when all sites were looked at; 0: never */
    tt_diff *diff;       /* owned; NULL: not compared yet */
};

/* Finds the latest point of each site, unless nothing is new since. */
tt_status tt_page_look(tt_page *page, tt_error *err);
/* Reads all points of a sort into bins, unless that is done. */
tt_status tt_page_read(tt_page *page, tt_page_sort sort, tt_error *err);
/* Compares the two runs of a page. */
tt_status tt_page_compare(tt_page *page, tt_error *err);
const char *tt_page_sort_name(tt_page_sort sort);

/* Writes the bins of a run from number `from` on, and the series from `series` on. */
void tt_page_put_bins(tt_json *json, const tt_page *page, size_t number, tt_page_sort sort, size_t from,
                      size_t series, size_t bytes);
/* Appends a column from bin `from` on.  Column TT_PAGE_COLUMN_COUNT_: NaN and Inf. */
tt_status tt_page_put_column(tt_buf *out, const tt_page_bins *bins, tt_page_column column, size_t from,
                             size_t bytes);
/* Are there so many runs that the page holds their curves alone? */
static inline bool tt_page_is_overlay(const tt_page *page)
{
    return page->count > 2;
}
/* The run that a name of a block or a column begins with, "12/"; *rest: what follows.  false: there is none. */
bool tt_page_find_source(const char *name, size_t runs, size_t *number, const char **rest);
/* Returns how many bytes of a number are kept where bins are joined, or not. */
static inline size_t tt_page_number_bytes(const tt_page_bins *bins)
{
    return bins->width == 1 ? 4 : 3;
}
/* Is it the same as the column that it sums up?  Where every bin has one point, its least and its
 * largest value are that point's. */
bool tt_page_column_is_same(const tt_page_bins *bins, tt_page_column column);

/* encode.c: bytes and numbers as text inside a page */
/* Appends JSON so that no text in it can end the element around it. */
tt_status tt_page_put_json(tt_buf *out, const tt_buf *json);
tt_status tt_page_put_base64(tt_buf *out, const void *data, size_t n);
/* Appends an element that holds the bytes, deflated, in base64. */
tt_status tt_page_put_block(tt_buf *out, const char *name, const tt_buf *bytes);
/* Appends numbers, of which so many bytes are kept (2: two digits, 3: four, 4: all that float32
 * has): those from `from` to `to` of each row of `room` numbers.  All first bytes come first, then
 * all second ones: they are alike. */
tt_status tt_page_put_floats(tt_buf *out, const float *x, size_t rows, size_t room, size_t from,
                             size_t to, size_t bytes);

/* finding.c: what is to be said of the runs */
/* Appends answers about a run to a JSON array: docs/schemas/answer.json and "run", its number. */
tt_status tt_page_put_answers(tt_json *json, tt_page_source *source, int32_t number, tt_error *err);
/* Those about two runs: "run" is -1. */
void tt_page_put_comparison(tt_json *json, const tt_diff *diff);

/* site.c: what a page says about one site */
/* How many more sites may have histograms, and how many a kept tensor. */
typedef struct tt_page_room {
    int32_t histograms, values;
} tt_page_room;
/* Writes members of the object that is open: the latest point as tt.show prints it and in full,
 * histograms over the steps, and a few elements of the tensor that was kept last.  found: as
 * tt_run_look found it; file >= 0. */
tt_status tt_page_put_site(tt_json *json, tt_run *run, int32_t site, const tt_latest *found,
                           tt_page_room *room);
/* A number as text, with the digits of float32. */
void tt_page_put_number(tt_json *json, const char *name, double x);

/* facts.c */
void tt_page_put_counts(tt_json *json, const tt_page_source *s); /* state, points, sites ... */
tt_status tt_page_put_facts(tt_page *page, bool has_findings, tt_buf *out, tt_error *err);
tt_status tt_page_put_table(tt_page *page, size_t number, tt_buf *out, tt_error *err);
tt_status tt_page_put_differences(tt_page *page, tt_buf *out, tt_error *err);

/* ranks.c */
/* Adds "mesh": names of its dimensions, and the place of each file in it. */
void tt_page_put_mesh(tt_json *json, const tt_run *run);
/* Appends what a site is on each rank, over the steps. */
tt_status tt_page_put_ranks(tt_page *page, size_t number, int32_t site, tt_buf *out, tt_error *err);

/* charts.c */
tt_status tt_page_put_charts(tt_page *page, size_t number, tt_buf *out);

#endif
