/* parts.c -- which files of a site have to be read, and their points.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join/parts.h"

#include "store/placement.h"

#include <stdlib.h>
#include <string.h>

bool tt_join_is_ratio(const char *name)
{
    static const char update[] = "tensortap/update/", silent[] = "tensortap/silent/";
    return strncmp(name, update, strlen(update)) == 0 || strncmp(name, silent, strlen(silent)) == 0;
}

/* What was chosen: classes and chains, in a hash table. */
typedef struct chosen {
    uint64_t *keys; /* owned; 0: free */
    size_t cap;     /* a power of two, larger than the number of files */
} chosen;

/* Does an earlier file hold the same points, and ought to?  Then this one need not be read. */
static bool is_repeated(tt_gathering *g, int32_t file, const tt_index_site *row, chosen *before)
{
    bool is_known = true;
    int64_t first = row->chunks[0].first_step, last = row->chunks[row->count - 1].last_step;
    const tt_placement *p = tt_run_placement(g->run, file, g->site, last);
    bool is_constant = tt_run_placement(g->run, file, g->site, first) == p;
    uint64_t chain = tt_index_chain(row), class = 1; /* of what nobody placed */
    if (p != NULL)
        class = tt_placement_class(p, tt_run_known_mesh(g->run, file, p->mesh), &is_known);
    g->has_unknown |= !is_known || !is_constant;
    if (chain == 0 || class == 0 || !is_constant || tt_join_is_ratio(tt_run_site_name(g->run, g->site)))
        return false;
    uint64_t key = (class * UINT64_C(0x9e3779b97f4a7c15)) ^ chain;
    size_t at = (size_t)(key >> 20) & (before->cap - 1);
    key += key == 0;
    for (; before->keys[at] != 0; at = (at + 1) & (before->cap - 1))
        if (before->keys[at] == key)
            return true;
    before->keys[at] = key;
    return false;
}

tt_status tt_gathering_choose(tt_gathering *g)
{
    chosen before = { .cap = 16 };
    while (before.cap < 2 * (size_t)g->run->count)
        before.cap *= 2;
    before.keys = calloc(before.cap, sizeof *before.keys);
    g->files = calloc((size_t)g->run->count + 1, sizeof *g->files);
    bool has_memory = before.keys != NULL && g->files != NULL;
    for (int32_t f = 0; has_memory && f < g->run->count; f++) {
        const tt_index_site *row = tt_run_row(g->run, f, g->site);
        if (row == NULL || row->stored == 0)
            continue;
        g->ranks++;
        if (!is_repeated(g, f, row, &before))
            g->files[g->file_count++] = f;
    }
    free(before.keys);
    return has_memory ? TT_OK : TT_ENOMEM;
}

/* Appends a chunk; if it is damaged the points stay as they were. */
static tt_status append(const tt_chunk *chunk, tt_points *out)
{
    uint32_t n = out->n;
    size_t lengths[TT_COLUMN_COUNT_];
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++)
        lengths[c] = out->bytes[c].len;
    tt_status st = tt_chunk_unpack(chunk, (uint32_t)TT_PRODUCT_SAMPLE | TT_PRODUCT_TOKENS, out);
    if (st == TT_OK)
        return st;
    out->n = n;
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++)
        tt_buf_cut(&out->bytes[c], lengths[c]);
    return st;
}

tt_status tt_part_read(const tt_gathering *g, int32_t file, tt_points *out, bool *is_damaged)
{
    const tt_index_site *row = tt_run_row(g->run, file, g->site);
    tt_status st = TT_OK;
    for (uint32_t k = 0; st == TT_OK && k < row->count; k++) {
        tt_chunk chunk;
        st = tt_run_chunk(g->run, g->run->taps[file], row, &row->chunks[k], &chunk);
        if (st == TT_OK)
            st = append(&chunk, out);
        *is_damaged |= st == TT_EFORMAT;
        st = st == TT_EFORMAT ? TT_OK : st; /* its points are missing parts */
    }
    return st;
}

static int by_step(const void *a, const void *b)
{
    const tt_part_point *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    if (x->part != y->part) /* files come by rank */
        return x->part < y->part ? -1 : 1;
    return x->i < y->i ? -1 : 1;
}

tt_status tt_gathering_read(tt_gathering *g)
{
    bool is_damaged = false;
    tt_status st = TT_OK;
    g->parts = calloc(g->file_count + 1, sizeof *g->parts);
    if (g->parts == NULL)
        return TT_ENOMEM;
    for (size_t k = 0; st == TT_OK && k < g->file_count; k++) {
        tt_part *to = &g->parts[g->part_count++];
        to->file = g->files[k];
        st = tt_part_read(g, to->file, &to->points, &is_damaged);
        if (st == TT_OK)
            st = tt_grow(&g->entries, &g->cap, g->count + to->points.n, sizeof *g->entries);
        for (uint32_t i = 0; st == TT_OK && i < to->points.n; i++)
            g->entries[g->count++] =
                (tt_part_point){ .step = (int64_t)to->points.cells[TT_COLUMN_STEP][i],
                                 .call = (uint32_t)to->points.cells[TT_COLUMN_CALL][i],
                                 .i = i,
                                 .part = (int32_t)k };
    }
    if (g->count > 0)
        qsort(g->entries, g->count, sizeof *g->entries, by_step);
    return st;
}

void tt_gathering_free(tt_gathering *g)
{
    for (size_t i = 0; i < g->part_count; i++)
        tt_points_free(&g->parts[i].points);
    free(g->parts);
    free(g->files);
    free(g->entries);
    free(g->bins);
}
