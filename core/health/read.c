/* read.c -- points of a file, or events of a program, as what the rules see.
 *
 * Ten million points take less than a second because only those columns are unpacked that a rule
 * looks at, and a column of zeros, such as the number of NaN, is not there at all.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/history.h"
#include "store/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void see_number(tt_sighting *p, double x)
{
    p->has_value = true;
    p->value = x;
    p->nan = isnan(x) ? 1 : 0;
    p->inf = isinf(x) ? 1 : 0;
    p->zeros = x == 0 ? 1 : 0;
    p->mark = tt_bits_of(x);
}

/* The class of the module, also if this is one of several outputs: "attn[0]". */
static const char *class_of(const tt_history *h, const tt_course *c)
{
    int32_t subject = tt_sites_find(h->names, c->tail, strcspn(c->tail, "["));
    return subject >= 0 ? h->subjects[subject].class_name : NULL;
}

static void see_stats(tt_sighting *p, const tt_history *h, tt_course *c, const tt_stats *s)
{
    p->nan = s->nan;
    p->inf = s->posinf + s->neginf;
    double finite = (double)(s->count - p->nan - p->inf);
    p->has_value = finite > 0;
    p->value = c->kind == TT_COURSE_LOSS ? s->mean : finite > 0 ? sqrt(s->sumsq / finite) : (double)NAN;
    p->mean = s->mean;
    p->absmax = s->absmax;
    p->zeros = s->count > 0 ? (double)s->zeros / (double)s->count : 0;
    p->mark = tt_bits_of(s->sum) * UINT64_C(0x9e3779b97f4a7c15) ^ tt_bits_of(s->sumsq);
    p->is_masked =
        s->neginf > 0 && tt_value_is_masked(c->name, class_of(h, c), s->nan, s->posinf, s->neginf);
    p->is_mask = p->is_masked && s->sumsq == 0;
    c->dtype = s->dtype;
    c->elements = s->count;
}

/* ---- from the program --------------------------------------------------------- */

/* The micro-batch that runs: the first call after a backward pass begins the next. */
static int64_t find_round(tt_history *h, const tt_course *c, const tt_event *event)
{
    if (event->phase == TT_PHASE_EVAL)
        return 0;
    if (event->step != h->round_step) {
        h->round_step = event->step;
        h->round = 0;
        h->is_round_over = false;
    }
    if (c->kind == TT_COURSE_LOSS && event->stats != NULL)
        h->is_round_over = true;
    else if (c->kind == TT_COURSE_ACTIVATION && h->is_round_over) {
        h->is_round_over = false;
        h->round++;
    }
    return h->round;
}

void tt_history_see(tt_history *h, tt_course *c, const tt_event *event)
{
    tt_sighting p = { .step = event->step,
                      .time = event->time,
                      .round = find_round(h, c, event),
                      .is_eval = event->phase == TT_PHASE_EVAL,
                      .is_skipped = event->is_skipped };
    if (event->stats != NULL)
        see_stats(&p, h, c, event->stats);
    else if (event->scalar != NULL)
        see_number(&p, *event->scalar);
    if (event->digest != NULL)
        p.mark = event->digest->low;
    if (event->tensor != NULL)
        c->ndim = event->tensor->ndim;
    tt_course_add(c, &p);
    if (p.step > h->last_step)
        h->last_step = p.step;
}

/* ---- from the file ------------------------------------------------------------ */

/* The columns that rules look at; those from SUM on only in courses of some kinds. */
#define COLUMN_MAP(X) \
    X(PRODUCTS)       \
    X(STEP)           \
    X(PHASE)          \
    X(SCALAR)         \
    X(COUNT) X(SUMSQ) X(DTYPE) X(NAN) X(POSINF) X(NEGINF) X(SUM) X(MEAN) X(ZEROS) X(ABSMAX) X(DIGEST_LO)
#define X(name) AT_##name,
enum { COLUMN_MAP(X) AT_COUNT_ };
#undef X

/* Chooses the columns that rules look at in a course of this kind. */
static void choose_columns(tt_course_kind kind, tt_column out[AT_COUNT_])
{
#define X(name) TT_COLUMN_##name,
    static const tt_column columns[] = { COLUMN_MAP(X) };
#undef X
    static const uint32_t wanted[TT_COURSE_KIND_COUNT_] = {
        [TT_COURSE_ACTIVATION] = 1u << AT_MEAN | 1u << AT_ZEROS,
        [TT_COURSE_GRADIENT] = 1u << AT_ZEROS,
        [TT_COURSE_PARAMETER] = 1u << AT_SUM,
        [TT_COURSE_LOSS] = 1u << AT_MEAN | 1u << AT_SUM,
        [TT_COURSE_UPDATE] = 1u << AT_ZEROS,
        [TT_COURSE_BATCH] = 1u << AT_MEAN | 1u << AT_DIGEST_LO,
    };
    for (size_t k = 0; k < AT_COUNT_; k++)
        out[k] = k < AT_SUM || (wanted[kind] >> k & 1) != 0 ? columns[k] : TT_COLUMN_COUNT_;
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
    tt_column columns[AT_COUNT_];
    const uint64_t *cells[AT_COUNT_];
    choose_columns(c->kind, columns);
    tt_status st = tt_run_cells(run, chunk, columns, AT_COUNT_, cells);
    if (st == TT_OK && cells[AT_DTYPE][0] == TT_F16) {
        columns[AT_ABSMAX] = TT_COLUMN_ABSMAX;
        st = tt_run_cells(run, chunk, columns, AT_COUNT_, cells);
    }
    int32_t ndim = read_ndim(chunk);
    c->ndim = ndim >= 0 ? ndim : c->ndim;
    for (uint32_t i = 0; st == TT_OK && i < chunk->entry.n; i++) {
#define CELL(name) (cells[AT_##name][i])
        tt_sighting p = { .step = (int64_t)CELL(STEP),
                          .is_eval = tt_phases_hold(TT_PHASES_EVAL, CELL(PHASE)),
                          .is_skipped = (CELL(PHASE) & TT_PHASE_SKIPPED) != 0 };
        if (CELL(PRODUCTS) & TT_PRODUCT_STATS)
            see_stats(&p, h, c,
                      &(tt_stats){ .count = tt_count_of(CELL(COUNT)),
                                   .nan = tt_count_of(CELL(NAN)),
                                   .posinf = tt_count_of(CELL(POSINF)),
                                   .neginf = tt_count_of(CELL(NEGINF)),
                                   .zeros = tt_count_of(CELL(ZEROS)),
                                   .absmax = tt_f64_of(CELL(ABSMAX)),
                                   .sum = tt_f64_of(CELL(SUM)),
                                   .mean = tt_f64_of(CELL(MEAN)),
                                   .sumsq = tt_f64_of(CELL(SUMSQ)),
                                   .dtype = (int32_t)CELL(DTYPE) });
        else if (CELL(PRODUCTS) & TT_PRODUCT_SCALAR)
            see_number(&p, tt_f64_of(CELL(SCALAR)));
        if (c->kind == TT_COURSE_BATCH && (CELL(PRODUCTS) & TT_PRODUCT_DIGEST) != 0)
            p.mark = CELL(DIGEST_LO);
#undef CELL
        if (chunk->entry.first + i < c->read)
            continue;
        tt_course_add(c, &p);
    }
    if (c->last_step > h->last_step)
        h->last_step = c->last_step;
    return st;
}

/* Reads the points of a row that have not been read into a course of the history, or one like them. */
static tt_status read_points(tt_run *run, int32_t file, const tt_index_site *row, tt_history *h,
                             tt_course *c)
{
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

static tt_status read_site(tt_run *run, int32_t file, int32_t site, tt_history *h)
{
    const tt_index_site *row = tt_run_row(run, file, site);
    const tt_joined_site *joined = tt_run_joined(run, site);
    bool has_points = (row != NULL && row->stored > 0) || (joined != NULL && joined->ranks > 0);
    tt_course *c = has_points ? tt_history_course(h, site, tt_run_site_name(run, site)) : NULL;
    if (c == NULL)
        return has_points ? TT_ENOMEM : TT_OK;
    if (joined != NULL && joined->ranks == 1)
        c->rank = joined->rank;
    h->unjoined += joined != NULL && joined->points == 0;
    return read_points(run, file, row, h, c);
}

static tt_status read_file(tt_run *run, int32_t file, tt_history *h)
{
    tt_module module;
    tt_run_file about;
    tt_status st = tt_run_file_get(run, file, &about);
    if (st == TT_OK)
        h->stopped = about.stopped;
    h->gap_count = 0;
    tt_note note;
    for (int32_t i = 0; st == TT_OK && tt_run_note(run, file, i, &note) == TT_OK; i++)
        if (h->gap_count < TT_GAPS_MOST && (strstr(note.text, " could not be read: ") != NULL ||
                                            strstr(note.text, " not seen: ") != NULL))
            h->gaps[h->gap_count++] = note.text;
    for (; st == TT_OK && tt_run_module(run, file, h->modules, &module) == TT_OK; h->modules++)
        st = tt_history_module(h, module.path, module.class_name);
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++)
        st = read_site(run, file, site, h);
    return st;
}

static tt_status read_settings(const tt_run *run, int32_t file, tt_history *h)
{
    tt_setting one;
    tt_status st = TT_OK;
    for (; st == TT_OK && tt_run_setting(run, file, h->settings_read, &one) == TT_OK; h->settings_read++)
        st = tt_history_set(h, one.key, one.value);
    return st;
}

/* Makes room for so many histories; those that are there stay. */
static tt_status extend(tt_history **all, int32_t *count, size_t *cap, const tt_run *run)
{
    tt_status st = tt_grow(all, cap, (size_t)run->count, sizeof **all);
    for (; st == TT_OK && *count < run->count; ++*count)
        st = tt_history_create(run->taps[*count]->rank, &(*all)[*count]);
    return st;
}

/* Reads a loss as each rank has it. */
static tt_status read_losses(tt_histories *all, tt_run *run, const tt_course *loss)
{
    tt_status st = TT_OK;
    for (int32_t file = 0; st == TT_OK && file < run->count; file++) {
        const tt_index_site *row = tt_run_row(run, file, loss->site);
        if (row == NULL || row->stored == 0)
            continue;
        st = tt_grow(&all->losses, &all->loss_cap, (size_t)all->loss_count + 1, sizeof *all->losses);
        if (st < 0)
            break;
        tt_rank_loss *of = &all->losses[all->loss_count++];
        *of = (tt_rank_loss){ .rank = run->taps[file]->rank,
                              .course = { .name = loss->name,
                                          .tail = loss->tail,
                                          .kind = loss->kind,
                                          .site = loss->site,
                                          .rank = -1,
                                          .marked_step = -1,
                                          .last_skipped_step = -1 } };
        st = read_points(run, file, row, &all->files[0], &of->course);
    }
    return st;
}

/* Reads the whole tensors, and of each rank its losses.  What a rank lacked may be there now: everything is read again. */
static tt_status read_joined(tt_histories *all, tt_run *run, tt_run *joined)
{
    for (int32_t i = 0; i < all->count; i++)
        tt_history_free(&all->files[i]);
    all->count = 0;
    all->is_joined = true;
    tt_status st = extend(&all->files, &all->count, &all->cap, joined);
    tt_run_join_all(joined);
    if (st == TT_OK)
        all->files[0].rank = -1;
    if (st == TT_OK)
        st = read_file(joined, 0, &all->files[0]);
    if (st == TT_OK)
        all->files[0].stopped = tt_run_totals(run).stopped;
    all->loss_count = 0;
    for (const tt_course *loss = NULL;
         st == TT_OK && (loss = tt_history_next(&all->files[0], loss)) != NULL;)
        if (loss->kind == TT_COURSE_LOSS)
            st = read_losses(all, run, loss);
    return st;
}

tt_status tt_histories_read(tt_histories **histories, tt_run *run, tt_run *joined, tt_error *err)
{
    if (*histories != NULL && (*histories)->insertions != tt_run_insertions(run)) {
        tt_histories_free(*histories);
        *histories = NULL;
    }
    tt_histories *all = *histories = *histories != NULL ? *histories : calloc(1, sizeof *all);
    if (all != NULL)
        all->insertions = tt_run_insertions(run);
    tt_status st = all == NULL      ? TT_ENOMEM
                   : joined != NULL ? read_joined(all, run, joined)
                                    : extend(&all->files, &all->count, &all->cap, run);
    for (int32_t file = 0; st == TT_OK && joined == NULL && file < run->count; file++)
        st = read_file(run, file, &all->files[file]);
    for (int32_t file = 0; st == TT_OK && file < all->count; file++)
        st = read_settings(run, file, &all->files[file]);
    if (st < 0) { /* a file may have been read in part */
        tt_histories_free(all);
        *histories = NULL;
    }
    return tt_fail_plain(err, st);
}
