/* scan.c -- finds the blocks of a run file and builds its index.
 *
 * Exists because a run is read after a crash as often as after a close, and while
 * it is written.  Damage is stepped over: blocks start at multiples of 64 bytes,
 * so the next one can be found.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/scan.h"

#include "base/file.h"

#include <stdlib.h>
#include <sys/stat.h>

bool tt_scan_is_block(const tt_scan *scan, int64_t at, tt_block_head *head)
{
    unsigned char bytes[TT_BLOCK_HEADER];
    return at >= 0 && at <= scan->size - TT_BLOCK_HEADER &&
           tt_file_read(scan->fd, bytes, sizeof bytes, at) == TT_OK && tt_block_parse(bytes, at, head) &&
           (scan->id == 0 || head->id == scan->id) && head->length <= scan->size - at;
}

/* Looks for a header behind damage or a hole, a megabyte at a time.  -1: none. */
static int64_t search(tt_scan *scan, int64_t from)
{
    enum { STRETCH = 1 << 20 };
    unsigned char *bytes = malloc(STRETCH);
    int64_t found = -1;
    while (bytes != NULL && found < 0 && from <= scan->size - TT_BLOCK_HEADER && scan->search_left > 0) {
        int64_t data = tt_file_data(scan->fd, from);
        if (data < 0 || data > scan->size - TT_BLOCK_HEADER)
            break;
        from = data / TT_BLOCK_ALIGN * TT_BLOCK_ALIGN;
        int64_t len =
            scan->size - from < STRETCH ? (scan->size - from) / TT_BLOCK_ALIGN * TT_BLOCK_ALIGN : STRETCH;
        if (tt_file_read(scan->fd, bytes, (size_t)len, from) < 0)
            break;
        for (int64_t i = 0; i < len && found < 0; i += TT_BLOCK_ALIGN) {
            tt_block_head head;
            if (bytes[i] == 'T' && tt_block_parse(bytes + i, from + i, &head) &&
                (scan->id == 0 || head.id == scan->id))
                found = from + i;
        }
        from += len;
        scan->search_left -= len;
    }
    free(bytes);
    return found;
}

bool tt_scan_next(tt_scan *scan, int64_t *at, tt_block_head *head, int64_t *skipped)
{
    int64_t place = *at;
    if (place > scan->size - TT_BLOCK_HEADER)
        return false;
    while (place >= 0 && !tt_scan_is_block(scan, place, head))
        place = search(scan, place + TT_BLOCK_ALIGN);
    if (place < 0)
        return false;
    if (skipped != NULL)
        *skipped = place - *at;
    if (scan->id == 0)
        scan->id = head->id;
    *at = place;
    return true;
}

tt_status tt_scan_body(tt_scan *scan, int64_t at, const tt_block_head *head)
{
    tt_buf_clear(&scan->body);
    tt_status st = tt_buf_reserve(&scan->body, head->body);
    if (st < 0)
        return st;
    st = tt_file_read(scan->fd, scan->body.data, head->body, at + TT_BLOCK_HEADER);
    if (st < 0)
        return st;
    scan->body.len = head->body;
    return tt_block_hash(scan->body.data, head->body) == head->check ? TT_OK : TT_EFORMAT;
}

tt_status tt_scan_load(tt_scan *scan, int64_t at, tt_block_kind kind, tt_block_head *head)
{
    tt_block_head own;
    head = head != NULL ? head : &own;
    return tt_scan_is_block(scan, at, head) && head->kind == kind ? tt_scan_body(scan, at, head)
                                                                  : TT_EFORMAT;
}

static tt_status load_snapshot(tt_scan *scan, int64_t at, tt_block_kind kind, tt_block_head *head)
{
    tt_status st = tt_scan_load(scan, at, kind, head);
    return st < 0 ? st
                  : tt_index_read(scan->index, scan->body.data, scan->body.len, at, at + TT_BLOCK_HEADER);
}

/* Takes in one block. */
static tt_status take(tt_scan *scan, int64_t at, const tt_block_head *head)
{
    if (head->kind != TT_BLOCK_BATCH && head->kind != TT_BLOCK_SESSION)
        return TT_OK; /* a snapshot says nothing new */
    tt_status st = tt_scan_body(scan, at, head);
    if (st < 0)
        return st;
    if (head->kind == TT_BLOCK_SESSION)
        return tt_offsets_add(&scan->index->sessions, at);
    return tt_index_read(scan->index, scan->body.data, scan->body.len, at, at + TT_BLOCK_HEADER);
}

/* Takes in all blocks from scan->end on. */
static tt_status take_rest(tt_scan *scan)
{
    tt_block_head head;
    int64_t skipped;
    for (int64_t at = scan->end; tt_scan_next(scan, &at, &head, &skipped); at = scan->end) {
        tt_status st = take(scan, at, &head);
        if (st == TT_ENOMEM || st == TT_EIO || st == TT_ELIMIT)
            return st;
        if (st < 0 && at + head.length == scan->size)
            break; /* the last one: it may still be on its way */
        scan->damaged += skipped + (st < 0 ? head.length : 0);
        scan->end = at + head.length;
        scan->sequence = head.sequence + 1;
        scan->is_closed = head.kind == TT_BLOCK_END && scan->end == scan->size;
    }
    tt_index_sort_holes(scan->index);
    return TT_OK;
}

static bool open_by_footer(tt_scan *scan)
{
    tt_block_head end, footer;
    if (scan->size % TT_BLOCK_ALIGN != 0 || !tt_scan_is_block(scan, scan->size - TT_BLOCK_HEADER, &end) ||
        end.kind != TT_BLOCK_END)
        return false;
    scan->id = end.id;
    if (load_snapshot(scan, end.first_step, TT_BLOCK_FOOTER, &footer) < 0)
        return false;
    tt_index_sort_holes(scan->index);
    scan->end = scan->size;
    scan->sequence = end.sequence + 1;
    scan->is_closed = true;
    return true;
}

static tt_status look(tt_scan *scan)
{
    struct stat about;
    if (fstat(scan->fd, &about) < 0)
        return TT_EIO;
    scan->size = about.st_size;
    return TT_OK;
}

/* After a snapshot that could not be read whole. */
static void forget(tt_scan *scan)
{
    tt_sites *sites = scan->index->sites;
    tt_index_free(scan->index);
    tt_sites_clear(sites);
    scan->index->sites = sites;
    scan->index->steps = TT_SPAN_NONE;
}

tt_status tt_scan_open(tt_scan *scan, int fd, tt_index *index)
{
    *scan = (tt_scan){ .fd = fd, .index = index, .search_left = TT_SCAN_SEARCH };
    index->steps = TT_SPAN_NONE;
    tt_status st = look(scan);
    if (st < 0 || open_by_footer(scan))
        return st;
    scan->id = 0;
    forget(scan);
    /* From header to header, to find the latest index block. */
    int64_t latest = -1;
    tt_block_head head;
    for (int64_t at = 0; tt_scan_next(scan, &at, &head, NULL); at += head.length)
        latest = head.kind == TT_BLOCK_INDEX ? at : latest;
    scan->search_left = TT_SCAN_SEARCH;
    if (latest >= 0) {
        st = load_snapshot(scan, latest, TT_BLOCK_INDEX, &head);
        if (st == TT_OK)
            scan->end = latest + head.length;
        else if (st == TT_EFORMAT || st == TT_ELIMIT)
            forget(scan);
        else
            return st;
    }
    return take_rest(scan);
}

tt_status tt_scan_follow(tt_scan *scan)
{
    int64_t before = scan->size;
    tt_status st = look(scan);
    if (st < 0)
        return st;
    if (scan->size < scan->end)
        return TT_EFORMAT; /* another file, or cut */
    if (scan->size == before && scan->end == scan->size)
        return TT_OK;
    scan->search_left = TT_SCAN_SEARCH;
    return take_rest(scan);
}

void tt_scan_free(tt_scan *scan)
{
    tt_buf_free(&scan->body);
}
