/* read.c -- points of a file, or events of a program, as what the rules see.
 *
 * Ten million points take less than a second because only those columns are unpacked that a rule
 * looks at, and a column of zeros, such as the number of NaN, is not there at all.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/read.h"
#include "store/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- from the program --------------------------------------------------------- */

static double size_of(double sumsq, double finite)
{
    return finite > 0 ? sqrt(sumsq / finite) : (double)NAN;
}

static uint64_t mark_of(double sum, double sumsq)
{
    return tt_bits_of(sum) * UINT64_C(0x9e3779b97f4a7c15) ^ tt_bits_of(sumsq);
}

void tt_history_see(tt_history *h, tt_course *c, const tt_event *event)
{
    const tt_stats *s = event->stats;
    tt_sighting p = { .step = event->step,
                      .time = event->time,
                      .is_eval = event->phase == TT_PHASE_EVAL,
                      .is_skipped = event->is_skipped };
    if (s != NULL) {
        int64_t finite = tt_stats_finite(s);
        p.nan = s->nan;
        p.inf = s->posinf + s->neginf;
        p.has_value = finite > 0;
        p.value = c->kind == TT_COURSE_LOSS ? s->mean : size_of(s->sumsq, (double)finite);
        p.mean = s->mean;
        p.absmax = s->absmax;
        p.zeros = s->count > 0 ? (double)s->zeros / (double)s->count : 0;
        p.mark = mark_of(s->sum, s->sumsq);
        c->dtype = s->dtype;
        c->elements = s->count;
    } else if (event->scalar != NULL) {
        p.has_value = true;
        p.value = *event->scalar;
        p.nan = isnan(p.value) ? 1 : 0;
        p.inf = isinf(p.value) ? 1 : 0;
        p.zeros = p.value == 0 ? 1 : 0;
        p.mark = tt_bits_of(p.value);
    }
    if (event->digest != NULL)
        p.mark = event->digest->low;
    if (event->tensor != NULL)
        c->ndim = event->tensor->ndim;
    tt_course_add(c, &p);
    if (p.step > h->last_step)
        h->last_step = p.step;
}

/* ---- from the file ------------------------------------------------------------ */

/* Columns of a chunk in run->cells, each n long. */
typedef enum cell {
    PRODUCTS,
    STEP,
    PHASE,
    TIME,
    SCALAR,
    COUNT,
    SUMSQ,
    SUM,
    MEAN,
    ZEROS,
    ABSMAX,
    DTYPE,
    NANS,
    POSINF,
    NEGINF,
    DIGEST,
    CELLS
} cell;

static const tt_column columns[CELLS] = {
    [PRODUCTS] = TT_COLUMN_PRODUCTS, [STEP] = TT_COLUMN_STEP,     [PHASE] = TT_COLUMN_PHASE,
    [TIME] = TT_COLUMN_TIME,         [SCALAR] = TT_COLUMN_SCALAR, [COUNT] = TT_COLUMN_COUNT,
    [SUMSQ] = TT_COLUMN_SUMSQ,       [SUM] = TT_COLUMN_SUM,       [MEAN] = TT_COLUMN_MEAN,
    [ZEROS] = TT_COLUMN_ZEROS,       [ABSMAX] = TT_COLUMN_ABSMAX, [DTYPE] = TT_COLUMN_DTYPE,
    [NANS] = TT_COLUMN_NAN,          [POSINF] = TT_COLUMN_POSINF, [NEGINF] = TT_COLUMN_NEGINF,
    [DIGEST] = TT_COLUMN_DIGEST_LO,
};

typedef struct reader {
    tt_run *run;
    const tt_chunk *chunk;
    uint64_t *cells[CELLS]; /* NULL: not read; then all are zero */
    tt_status st;
} reader;

static bool has(const reader *r, cell which)
{
    return r->chunk->columns[columns[which]].at != NULL;
}

/* A column that is not in the chunk is all zeros, and is not read. */
static void read_column(reader *r, cell which, uint32_t entries)
{
    if (r->st < 0 || entries == 0 || !has(r, which))
        return;
    uint64_t *cells = r->run->cells + (size_t)which * r->chunk->n;
    r->st = tt_chunk_column(r->chunk, columns[which], cells, entries);
    r->cells[which] = cells;
}

static uint64_t cell_of(const reader *r, cell which, uint32_t i)
{
    return r->cells[which] != NULL ? r->cells[which][i] : 0;
}

/* Which columns of statistics the rules look at. */
static void read_stats(reader *r, const tt_course *c, uint32_t entries)
{
    static const uint32_t wanted[TT_COURSE_KIND_COUNT_] = {
        [TT_COURSE_ACTIVATION] = 1u << MEAN, [TT_COURSE_GRADIENT] = 1u << ZEROS,
        [TT_COURSE_PARAMETER] = 1u << SUM,   [TT_COURSE_LOSS] = 1u << MEAN | 1u << SUM,
        [TT_COURSE_BATCH] = 1u << MEAN,
    };
    if (entries == 0)
        return;
    read_column(r, COUNT, entries);
    read_column(r, DTYPE, entries);
    read_column(r, SUMSQ, entries);
    read_column(r, NANS, entries);
    read_column(r, POSINF, entries);
    read_column(r, NEGINF, entries);
    bool is_half = cell_of(r, DTYPE, 0) == TT_F16;
    for (cell k = SUM; k <= ZEROS; k++)
        if ((wanted[c->kind] >> k & 1) != 0)
            read_column(r, k, entries);
    if (is_half)
        read_column(r, ABSMAX, entries);
    if (r->cells[NANS] != NULL || r->cells[POSINF] != NULL || r->cells[NEGINF] != NULL)
        read_column(r, TIME, r->chunk->n);
}

static void fill_stats(const reader *r, tt_course *c, uint32_t i, tt_sighting *p)
{
    double count = (double)tt_count_of(cell_of(r, COUNT, i));
    p->nan = tt_count_of(cell_of(r, NANS, i));
    p->inf = tt_count_of(cell_of(r, POSINF, i)) + tt_count_of(cell_of(r, NEGINF, i));
    double finite = count - (double)p->nan - (double)p->inf;
    double sumsq = tt_f64_of(cell_of(r, SUMSQ, i));
    p->has_value = finite > 0;
    p->mean = tt_f64_of(cell_of(r, MEAN, i));
    p->value = c->kind == TT_COURSE_LOSS ? p->mean : size_of(sumsq, finite);
    p->absmax = tt_f64_of(cell_of(r, ABSMAX, i));
    p->zeros = count > 0 ? (double)tt_count_of(cell_of(r, ZEROS, i)) / count : 0;
    p->mark = mark_of(tt_f64_of(cell_of(r, SUM, i)), sumsq);
    c->dtype = (int32_t)cell_of(r, DTYPE, i);
    c->elements = (int64_t)count;
}

static bool has_bad_number(const reader *r, uint32_t entries)
{
    for (uint32_t i = 0; i < entries; i++)
        if (!isfinite(tt_f64_of(cell_of(r, SCALAR, i))))
            return true;
    return false;
}

/* The number of dimensions, where all points of the chunk have the same shape; else -1. */
static int32_t read_ndim(const tt_chunk *chunk)
{
    if (chunk->columns[TT_COLUMN_SHAPE].at == NULL ||
        chunk->columns[TT_COLUMN_SHAPE].packing != TT_PACK_SAME)
        return -1;
    tt_cursor cursor =
        tt_cursor_over(chunk->columns[TT_COLUMN_SHAPE].at, chunk->columns[TT_COLUMN_SHAPE].len);
    uint64_t len = tt_cursor_varint(&cursor), ndim = len > 0 ? tt_cursor_varint(&cursor) : UINT64_MAX;
    return !cursor.is_bad && ndim <= TT_MAX_DIM ? (int32_t)ndim : -1;
}

static tt_status read_chunk(tt_run *run, const tt_chunk *chunk, tt_history *h, tt_course *c)
{
    uint32_t n = chunk->n, stat = 0, number = 0, digest = 0;
    tt_status st = tt_run_grow_cells(run, (size_t)n * CELLS);
    if (st < 0)
        return st;
    reader r = { .run = run, .chunk = chunk };
    for (cell k = PRODUCTS; k <= PHASE; k++)
        read_column(&r, k, n);
    if (r.st < 0 || r.cells[PRODUCTS] == NULL)
        return r.st;
    read_stats(&r, c, tt_chunk_entries(r.cells[PRODUCTS], n, TT_PRODUCT_STATS));
    uint32_t with_number = tt_chunk_entries(r.cells[PRODUCTS], n, TT_PRODUCT_SCALAR);
    read_column(&r, SCALAR, with_number);
    if (has_bad_number(&r, with_number))
        read_column(&r, TIME, n);
    if (c->kind == TT_COURSE_BATCH)
        read_column(&r, DIGEST, tt_chunk_entries(r.cells[PRODUCTS], n, TT_PRODUCT_DIGEST));
    int32_t ndim = read_ndim(chunk);
    c->ndim = ndim >= 0 ? ndim : c->ndim;
    for (uint32_t i = 0; r.st == TT_OK && i < n; i++) {
        uint64_t products = r.cells[PRODUCTS][i], phase = cell_of(&r, PHASE, i);
        tt_sighting p = { .step = (int64_t)cell_of(&r, STEP, i),
                          .time = (int64_t)cell_of(&r, TIME, i),
                          .is_eval = tt_phases_hold(TT_PHASES_EVAL, phase),
                          .is_skipped = (phase & TT_PHASE_SKIPPED) != 0 };
        if (products & TT_PRODUCT_STATS) {
            fill_stats(&r, c, stat++, &p);
        } else if (products & TT_PRODUCT_SCALAR) {
            p.has_value = true;
            p.value = tt_f64_of(cell_of(&r, SCALAR, number));
            p.nan = isnan(p.value) ? 1 : 0;
            p.inf = isinf(p.value) ? 1 : 0;
            p.zeros = p.value == 0 ? 1 : 0;
            p.mark = tt_bits_of(p.value);
        }
        number += (products & TT_PRODUCT_SCALAR) != 0;
        if (products & TT_PRODUCT_DIGEST) {
            uint64_t mark = cell_of(&r, DIGEST, digest++);
            p.mark = c->kind == TT_COURSE_BATCH ? mark : p.mark;
        }
        if (chunk->first + i >= c->read)
            tt_course_add(c, &p);
    }
    if (c->last_step > h->last_step)
        h->last_step = c->last_step;
    return r.st;
}

static tt_status read_site(tt_run *run, int32_t file, int32_t site, tt_history *h)
{
    const tt_index_site *row = tt_run_row(run, file, site);
    tt_course *c =
        row != NULL && row->stored > 0 ? tt_history_course(h, site, tt_run_site_name(run, site)) : NULL;
    if (c == NULL)
        return row != NULL && row->stored > 0 ? TT_ENOMEM : TT_OK;
    for (uint32_t k = tt_index_from(row, c->read); k < row->count; k++) {
        tt_chunk chunk;
        tt_status st = tt_run_chunk(run, run->taps[file], row, &row->chunks[k], &chunk);
        if (st == TT_OK)
            st = read_chunk(run, &chunk, h, c);
        if (st == TT_EFORMAT) /* damaged points are left out */
            h->unread += row->chunks[k].n;
        else if (st < 0)
            return st;
        c->read = row->chunks[k].first + row->chunks[k].n;
    }
    return TT_OK;
}

static tt_status read_file(tt_run *run, int32_t file, tt_history *h)
{
    tt_module module;
    tt_run_file about;
    tt_status st = tt_run_file_get(run, file, &about);
    if (st == TT_OK)
        h->stopped = about.stopped;
    for (; st == TT_OK && tt_run_module(run, file, h->modules, &module) == TT_OK; h->modules++)
        st = tt_history_module(h, module.path, module.class_name);
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++)
        st = read_site(run, file, site, h);
    return st;
}

tt_status tt_histories_read(tt_histories **histories, tt_run *run, tt_error *err)
{
    tt_histories *all = *histories = *histories != NULL ? *histories : calloc(1, sizeof *all);
    tt_status st =
        all != NULL ? tt_grow(&all->files, &all->cap, (size_t)run->count, sizeof *all->files) : TT_ENOMEM;
    for (; st == TT_OK && all->count < run->count; all->count++)
        st = tt_history_create(run->taps[all->count]->rank, &all->files[all->count]);
    for (int32_t file = 0; st == TT_OK && file < run->count; file++)
        st = read_file(run, file, &all->files[file]);
    if (st < 0) { /* a file may have been read in part */
        tt_histories_free(all);
        *histories = NULL;
    }
    return tt_fail_plain(err, st);
}
