/* sweep.c -- chunks of one file, read in the order in which they lie there.
 *
 * What is near to each other is read at once: what lies between costs less than another read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/sweep.h"

#include "base/file.h"

#include <stdlib.h>

enum {
    NEAR = 4 << 10,      /* bytes that are read though nobody wants them */
    STRETCH = 256 << 10, /* read at once, unless one chunk is longer */
};

void tt_sweep_begin(tt_sweep *sweep)
{
    sweep->count = sweep->next = 0;
    tt_buf_clear(&sweep->bytes);
}

tt_status tt_sweep_want(tt_sweep *sweep, const tt_index_site *row, size_t whose)
{
    tt_status st = tt_grow(&sweep->all, &sweep->cap, sweep->count + row->count, sizeof *sweep->all);
    uint32_t before = 0;
    for (uint32_t k = 0; st == TT_OK && k < row->count; before += row->chunks[k++].n)
        sweep->all[sweep->count++] =
            (tt_swept){ .entry = &row->chunks[k], .row = row, .whose = whose, .before = before };
    return st;
}

static int by_place(const void *a, const void *b)
{
    const tt_swept *x = a, *y = b;
    return (x->entry->at > y->entry->at) - (x->entry->at < y->entry->at);
}

/* Reads the next chunk, and with it those that lie near. */
static tt_status read_on(tt_sweep *sweep, const tt_tap *tap)
{
    const tt_index_chunk *first = sweep->all[sweep->next].entry;
    if (first->at > tap->scan.size) /* what a file says may be anything */
        return TT_EFORMAT;
    int64_t end = first->at + first->len;
    for (size_t k = sweep->next + 1; k < sweep->count; k++) {
        const tt_index_chunk *more = sweep->all[k].entry;
        if (more->at > end + NEAR || more->at + more->len > first->at + STRETCH ||
            more->at + more->len > tap->scan.size)
            break;
        end = more->at + more->len > end ? more->at + more->len : end;
    }
    tt_buf_clear(&sweep->bytes);
    tt_status st =
        end <= tap->scan.size ? tt_buf_reserve(&sweep->bytes, (size_t)(end - first->at)) : TT_EFORMAT;
    if (st == TT_OK)
        st = tt_file_read(tap->fd, sweep->bytes.data, (size_t)(end - first->at), first->at);
    sweep->at = first->at;
    sweep->bytes.len = st == TT_OK ? (size_t)(end - first->at) : 0;
    return st;
}

static bool has(const tt_sweep *sweep, const tt_index_chunk *entry)
{
    return entry->at >= sweep->at && entry->at - sweep->at + entry->len <= (int64_t)sweep->bytes.len;
}

bool tt_sweep_next(tt_sweep *sweep, const tt_tap *tap, const tt_swept **out, tt_chunk *chunk,
                   tt_status *st)
{
    if (sweep->next >= sweep->count)
        return false;
    if (sweep->next == 0)
        qsort(sweep->all, sweep->count, sizeof *sweep->all, by_place);
    const tt_swept *one = &sweep->all[sweep->next];
    *st = has(sweep, one->entry) ? TT_OK : read_on(sweep, tap);
    if (*st == TT_OK)
        *st = tt_chunk_of(chunk, (int32_t)(one->row - tap->index.row), one->entry,
                          sweep->bytes.data + (one->entry->at - sweep->at));
    sweep->next++;
    *out = one;
    return true;
}

void tt_sweep_free(tt_sweep *sweep)
{
    free(sweep->all);
    tt_buf_free(&sweep->bytes);
}
