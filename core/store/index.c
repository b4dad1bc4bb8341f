/* index.c -- where everything in one run file is.
 *
 * Exists so that reading a site touches only that site's chunks.  Kept small:
 * chunks are merged by the writer (merge.c), so that a site has some hundred of
 * them at most while it is written, and few when it is closed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/index.h"

#include "base/file.h"
#include "store/chunk.h"

#include <stdio.h>
#include <stdlib.h>

void tt_index_forget(tt_index *index)
{
    for (int32_t i = 0; i < index->count; i++)
        free(index->row[i].chunks);
    free(index->row);
    index->row = NULL;
    index->count = 0;
    index->cap = 0;
}

void tt_index_free(tt_index *index)
{
    tt_index_forget(index);
    free(index->sessions.at);
    free(index->notes.at);
    free(index->holes.at);
    *index = (tt_index){ 0 };
}

tt_status tt_index_row(tt_index *index, int32_t site, tt_index_site **out)
{
    if (site < 0 || site >= TT_SITES_MAX)
        return TT_EFORMAT;
    tt_status st = tt_grow(&index->row, &index->cap, (size_t)site + 1, sizeof *index->row);
    if (st < 0)
        return st;
    for (; index->count <= site; index->count++)
        index->row[index->count] = (tt_index_site){ .nonfinite = -1 };
    *out = &index->row[site];
    return TT_OK;
}

tt_status tt_offsets_add(tt_offsets *offsets, int64_t at)
{
    if (offsets->count >= TT_INDEX_OFFSETS_MAX)
        return TT_EFORMAT;
    tt_status st = tt_grow(&offsets->at, &offsets->cap, (size_t)offsets->count + 1, sizeof at);
    if (st == TT_OK)
        offsets->at[offsets->count++] = at;
    return st;
}

uint32_t tt_offsets_upto(const tt_offsets *offsets, int64_t at)
{
    uint32_t low = 0, high = offsets->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (offsets->at[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int by_start(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void tt_index_sort_holes(tt_index *index)
{
    int64_t *at = index->holes.at;
    uint32_t count = index->holes.count / 2, kept = 0;
    if (count == 0)
        return;
    qsort(at, count, 2 * sizeof *at, by_start);
    for (uint32_t i = 0; i < count; i++) {
        int64_t from = at[2 * i], to = at[2 * i + 1];
        if (kept > 0 && from <= at[2 * kept - 1]) {
            at[2 * kept - 1] = to > at[2 * kept - 1] ? to : at[2 * kept - 1];
        } else {
            at[2 * kept] = from;
            at[2 * kept++ + 1] = to;
        }
    }
    index->holes.count = 2 * kept;
}

bool tt_index_is_hole(const tt_index *index, int64_t at)
{
    return tt_offsets_upto(&index->holes, at) % 2 == 1; /* behind a start and not yet behind its end */
}

static int64_t end_of(const tt_index_chunk *chunk)
{
    return chunk->first + chunk->n;
}

uint32_t tt_index_from(const tt_index_site *row, int64_t point)
{
    uint32_t k = row->count;
    while (k > 0 && end_of(&row->chunks[k - 1]) > point)
        k--;
    return k;
}

static int64_t unpaid_by(const tt_index_chunk *chunk)
{
    return chunk->n > chunk->len ? chunk->n - chunk->len : 0;
}

/* The first chunk that begins at this point or behind it. */
static uint32_t find_chunk(const tt_index_site *row, int64_t point)
{
    uint32_t low = 0, high = row->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (row->chunks[middle].first < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

tt_status tt_index_add(tt_index *index, int32_t site, const tt_index_chunk *chunk)
{
    tt_index_site *row;
    tt_status st = tt_index_row(index, site, &row);
    if (st < 0)
        return st;
    if (index->chunks >= TT_INDEX_CHUNKS_MAX)
        return TT_EFORMAT;
    /* The chunks from here on are covered. */
    uint32_t from = find_chunk(row, chunk->first);
    int64_t covered = 0, unpaid = index->unpaid + unpaid_by(chunk);
    if (from > 0 && end_of(&row->chunks[from - 1]) > chunk->first) {
        /* Inside a chunk that is already there (a repaired file may order them so). */
        return end_of(&row->chunks[from - 1]) >= end_of(chunk) ? TT_OK : TT_EFORMAT;
    }
    if (row->count > 0 && end_of(&row->chunks[row->count - 1]) > end_of(chunk))
        return TT_EFORMAT; /* points come in order */
    for (uint32_t k = from; k < row->count; k++) {
        covered += row->chunks[k].n;
        unpaid -= unpaid_by(&row->chunks[k]);
    }
    if (unpaid > TT_INDEX_UNPAID_MAX) {
        index->refused_at = chunk->at;
        return TT_ELIMIT;
    }
    st = tt_grow(&row->chunks, &row->cap, (size_t)row->count + 1, sizeof *chunk);
    if (st < 0)
        return st;
    if (from < row->count && end_of(chunk) > row->points) {
        index->insertions++;
        row->nonfinite = row->nonfinite >= chunk->first ? -1 : row->nonfinite;
        row->scanned = row->scanned > chunk->first ? chunk->first : row->scanned;
    }
    index->chunks = index->chunks - (row->count - from) + 1;
    index->unpaid = unpaid;
    row->chunks[from] = *chunk;
    row->count = from + 1;
    row->stored += chunk->n - covered;
    index->points += chunk->n - covered;
    if (end_of(chunk) > row->points) {
        row->points = end_of(chunk);
        row->latest_at = 0;
    }
    tt_span_add(&index->steps, chunk->first_step, chunk->last_step);
    return TT_OK;
}

void tt_index_drop(tt_index *index, int32_t site, uint32_t k)
{
    tt_index_site *row = &index->row[site];
    uint32_t n = row->chunks[k].n;
    index->unpaid -= unpaid_by(&row->chunks[k]);
    row->count--;
    memmove(row->chunks + k, row->chunks + k + 1, (row->count - k) * sizeof *row->chunks);
    row->stored -= n;
    index->points -= n;
    index->chunks--;
}

tt_status tt_chunk_of(tt_chunk *out, int32_t site, const tt_index_chunk *entry, const void *bytes)
{
    tt_status st = tt_chunk_parse(out, bytes, entry->len);
    /* A chunk is named once: what an index says again is of another site or other points. */
    if (st == TT_OK &&
        (out->entry.first != entry->first || out->entry.n != entry->n || out->site != (uint32_t)site))
        st = TT_EFORMAT;
    return st;
}

tt_status tt_chunk_read(int fd, int64_t size, int32_t site, const tt_index_chunk *entry, tt_buf *scratch,
                        tt_chunk *out)
{
    tt_buf_clear(scratch);
    tt_status st = entry->len <= size ? tt_buf_reserve(scratch, entry->len) : TT_EFORMAT;
    if (st == TT_OK)
        st = tt_file_read(fd, scratch->data, entry->len, entry->at);
    return st == TT_OK ? tt_chunk_of(out, site, entry, scratch->data) : st;
}

/* Names that were in a block that is damaged: what came later is still told apart. */
static tt_status fill_lost_sites(tt_index *index, uint64_t number)
{
    if (number > TT_SITES_MAX)
        return TT_EFORMAT;
    for (int32_t have; (have = tt_sites_count(index->sites)) < (int32_t)number;) {
        char name[32];
        int len = snprintf(name, sizeof name, "(lost name %d)", (int)have);
        int32_t site;
        tt_status st = tt_sites_intern(index->sites, name, (size_t)len, NULL, &site);
        if (st < 0 || site != have)
            return st < 0 ? st : TT_EFORMAT;
    }
    return TT_OK;
}

static tt_status read_sites(tt_index *index, tt_cursor *cursor)
{
    uint64_t number = tt_cursor_varint(cursor);
    tt_status st = fill_lost_sites(index, number);
    if (st < 0)
        return st;
    for (; tt_cursor_left(cursor) > 0; number++) {
        uint64_t len = tt_cursor_varint(cursor);
        const unsigned char *name = tt_cursor_take(cursor, len);
        int32_t site;
        if (name == NULL || len > TT_SITE_NAME_MAX || memchr(name, 0, len) != NULL)
            return TT_EFORMAT;
        st = tt_sites_intern(index->sites, (const char *)name, len, NULL, &site);
        if (st == TT_EINVAL || (st == TT_OK && (uint64_t)site != number))
            return TT_EFORMAT; /* the same name twice, or one is missing */
        if (st < 0)
            return st;
    }
    return cursor->is_bad ? TT_EFORMAT : TT_OK;
}

static tt_status read_chunk(tt_index *index, tt_cursor *cursor, int64_t at, bool is_latest)
{
    tt_chunk chunk;
    size_t len = tt_cursor_left(cursor);
    tt_status st = tt_chunk_parse(&chunk, cursor->at, len);
    if (st < 0)
        return st;
    if (len > TT_BLOCK_CHUNK_MAX)
        return TT_EFORMAT;
    if (chunk.site >= at) /* each name before it takes a byte */
        return TT_EFORMAT;
    st = fill_lost_sites(index, (uint64_t)chunk.site + 1);
    if (st < 0)
        return st;
    if (is_latest) {
        tt_index_site *row;
        st = tt_index_row(index, (int32_t)chunk.site, &row);
        if (st == TT_OK && chunk.entry.n == 1 && chunk.entry.first + 1 == row->points) {
            row->latest_at = at;
            row->latest_len = (uint32_t)len;
        }
        return st;
    }
    chunk.entry.at = at;
    return tt_index_add(index, (int32_t)chunk.site, &chunk.entry);
}

static tt_status read_row(tt_index *index, tt_cursor *cursor)
{
    enum { ENTRY_BYTES = 6 }; /* of a chunk, at least */
    tt_index_site *row;
    uint64_t site = tt_cursor_varint(cursor), points = tt_cursor_varint(cursor);
    int64_t nonfinite = tt_cursor_signed(cursor);
    uint64_t count = tt_cursor_varint(cursor);
    if (cursor->is_bad || site >= (uint64_t)tt_sites_count(index->sites) || points > INT64_MAX / 2 ||
        nonfinite < -1)
        return TT_EFORMAT;
    int64_t at = 0, step = 0;
    uint64_t next = 0;
    tt_status st = tt_index_row(index, (int32_t)site, &row);
    if (st == TT_OK && row->cap == 0 && count <= tt_cursor_left(cursor) / ENTRY_BYTES) {
        /* Exactly: of a thousand files, slack would be most of the memory. */
        row->chunks = count > 0 ? malloc((size_t)count * sizeof *row->chunks) : NULL;
        row->cap = row->chunks != NULL ? (size_t)count : 0;
    }
    for (; st == TT_OK && count > 0; count--) {
        at = (int64_t)((uint64_t)at + (uint64_t)tt_cursor_signed(cursor));
        next += tt_cursor_varint(cursor);
        uint64_t n = tt_cursor_varint(cursor), len = tt_cursor_varint(cursor);
        int64_t low = (int64_t)((uint64_t)step + (uint64_t)tt_cursor_signed(cursor));
        step = (int64_t)((uint64_t)low + tt_cursor_varint(cursor));
        if (cursor->is_bad || at < 0 || next > INT64_MAX / 2 || n == 0 || n > TT_CHUNK_POINTS_MAX ||
            len > TT_BLOCK_CHUNK_MAX)
            return TT_EFORMAT;
        tt_index_chunk entry = { .at = at,
                                 .first = (int64_t)next,
                                 .first_step = low,
                                 .last_step = step,
                                 .len = (uint32_t)len,
                                 .n = (uint32_t)n };
        st = tt_index_add(index, (int32_t)site, &entry);
        next += n;
    }
    if (st < 0)
        return st;
    row->nonfinite = nonfinite;
    row->scanned = row->points;
    return TT_OK;
}

/* What a chain says must fit the row, else nobody believes it: tt_index_chain. */
static tt_status read_chain(tt_index *index, tt_cursor *cursor)
{
    uint64_t site = tt_cursor_varint(cursor), points = tt_cursor_varint(cursor);
    const unsigned char *bytes = tt_cursor_take(cursor, 8);
    if (bytes == NULL || site >= (uint64_t)index->count || points > INT64_MAX / 2)
        return TT_EFORMAT;
    index->row[site].chain = tt_get_u64(bytes);
    index->row[site].chained = (int64_t)points;
    index->has_mesh = true;
    return TT_OK;
}

static tt_status read_offsets(tt_offsets *offsets, tt_cursor *cursor, uint64_t count)
{
    tt_status st = TT_OK;
    for (int64_t at = 0; st == TT_OK && count > 0; count--) {
        at = (int64_t)((uint64_t)at + tt_cursor_varint(cursor));
        if (cursor->is_bad || at < 0)
            return TT_EFORMAT;
        if (offsets->count == 0 || offsets->at[offsets->count - 1] < at)
            st = tt_offsets_add(offsets, at);
    }
    return st;
}

static tt_status read_section(tt_index *index, uint64_t kind, tt_cursor *cursor, int64_t block_at,
                              int64_t at)
{
    tt_status st = TT_OK;
    switch (kind) {
    case TT_SECTION_SITES:
        return read_sites(index, cursor);
    case TT_SECTION_CHUNK:
    case TT_SECTION_LATEST:
        return read_chunk(index, cursor, at, kind == TT_SECTION_LATEST);
    case TT_SECTION_NOTE:
    case TT_SECTION_MODULE:
    case TT_SECTION_MESH:
    case TT_SECTION_PLACEMENT:
    case TT_SECTION_SETTING:
    case TT_SECTION_THINNED:
        index->has_mesh |= kind == TT_SECTION_MESH;
        if (index->notes.count > 0 && index->notes.at[index->notes.count - 1] >= block_at)
            return TT_OK;
        return tt_offsets_add(&index->notes, block_at);
    case TT_SECTION_LOST:
        index->lost_events = (int64_t)(tt_cursor_varint(cursor) & INT64_MAX);
        index->lost_bytes = (int64_t)(tt_cursor_varint(cursor) & INT64_MAX);
        return cursor->is_bad ? TT_EFORMAT : TT_OK;
    case TT_SECTION_HOLES:
        while (st == TT_OK && tt_cursor_left(cursor) > 0) {
            uint64_t from = tt_cursor_varint(cursor), to = tt_cursor_varint(cursor);
            if (cursor->is_bad || from > to || to > INT64_MAX)
                return TT_EFORMAT;
            st = tt_offsets_add(&index->holes, (int64_t)from);
            if (st == TT_OK)
                st = tt_offsets_add(&index->holes, (int64_t)to);
        }
        return st;
    case TT_SECTION_INDEX:
        return read_row(index, cursor);
    case TT_SECTION_CHAIN:
        return read_chain(index, cursor);
    case TT_SECTION_PLACES: {
        uint64_t sessions = tt_cursor_varint(cursor), notes = tt_cursor_varint(cursor);
        st = read_offsets(&index->sessions, cursor, sessions);
        return st < 0 ? st : read_offsets(&index->notes, cursor, notes);
    }
    default:
        return TT_OK; /* of a later version: not needed to understand the rest */
    }
}

bool tt_section_next(tt_cursor *body, uint64_t *kind, tt_cursor *section)
{
    if (tt_cursor_left(body) == 0)
        return false;
    *kind = tt_cursor_varint(body);
    uint64_t len = tt_cursor_varint(body);
    const unsigned char *at = tt_cursor_take(body, len);
    *section = tt_cursor_over(at, at != NULL ? len : 0);
    return at != NULL;
}

bool tt_thinned_read(tt_cursor *section, tt_thinned *out)
{
    int64_t from = tt_cursor_signed(section);
    uint64_t stride = tt_cursor_varint(section), kind = tt_cursor_varint(section);
    if (section->is_bad || stride == 0 || stride > UINT32_MAX || kind >= TT_THINNED_COUNT_)
        return false;
    *out = (tt_thinned){ .from = from, .stride = (int64_t)stride, .kind = (tt_thinned_kind)kind };
    return true;
}

tt_status tt_index_read(tt_index *index, const void *body, size_t len, int64_t block_at, int64_t body_at)
{
    tt_cursor cursor = tt_cursor_over(body, len), section;
    const unsigned char *start = cursor.at;
    tt_status st = TT_OK;
    for (uint64_t kind; st == TT_OK && tt_section_next(&cursor, &kind, &section);)
        st = read_section(index, kind, &section, block_at, body_at + (section.at - start));
    return st == TT_OK && cursor.is_bad ? TT_EFORMAT : st;
}

/* ---- writing it down, for index blocks and the footer ------------------------ */

void tt_section_put(tt_buf *out, tt_section kind, const tt_buf *section)
{
    tt_buf_varint(out, (uint64_t)kind);
    tt_buf_varint(out, section->len);
    tt_wire_buf(out, section);
}

void tt_sites_pack(const tt_sites *sites, int32_t from, tt_buf *out)
{
    int32_t count = tt_sites_count(sites);
    if (from >= count)
        return;
    tt_buf section = { 0 };
    tt_buf_varint(&section, (uint64_t)from);
    for (int32_t i = from; i < count; i++) {
        const tt_site_row *row = tt_sites_row(sites, i);
        tt_buf_varint(&section, row->len);
        tt_buf_append(&section, row->name, row->len);
    }
    tt_section_put(out, TT_SECTION_SITES, &section);
    tt_buf_free(&section);
}

static void put_row(tt_buf *section, int32_t site, const tt_index_site *row)
{
    int64_t at = 0, next = 0, step = 0;
    tt_buf_varint(section, (uint64_t)site);
    tt_buf_varint(section, (uint64_t)row->points);
    tt_wire_signed(section, row->nonfinite);
    tt_buf_varint(section, row->count);
    for (uint32_t i = 0; i < row->count; i++) {
        const tt_index_chunk *chunk = &row->chunks[i];
        tt_wire_signed(section, chunk->at - at);
        tt_buf_varint(section, (uint64_t)(chunk->first - next));
        tt_buf_varint(section, chunk->n);
        tt_buf_varint(section, chunk->len);
        tt_wire_signed(section, (int64_t)((uint64_t)chunk->first_step - (uint64_t)step));
        tt_buf_varint(section, (uint64_t)chunk->last_step - (uint64_t)chunk->first_step);
        at = chunk->at;
        next = chunk->first + chunk->n;
        step = chunk->last_step;
    }
}

static void put_chain(tt_buf *section, int32_t site, const tt_index_site *row)
{
    if (tt_index_chain(row) == 0)
        return;
    tt_buf_varint(section, (uint64_t)site);
    tt_buf_varint(section, (uint64_t)row->chained);
    unsigned char *room = tt_wire_room(section, 8);
    if (room != NULL)
        tt_put_u64(room, row->chain);
}

static void put_offsets(tt_buf *section, const tt_offsets *offsets)
{
    int64_t before = 0;
    for (uint32_t i = 0; i < offsets->count; i++) {
        tt_buf_varint(section, (uint64_t)(offsets->at[i] - before));
        before = offsets->at[i];
    }
}

static void put_section(tt_buf *out, tt_section kind, tt_buf *section)
{
    tt_section_put(out, kind, section);
    tt_buf_clear(section);
}

void tt_index_pack(const tt_index *index, tt_buf *out)
{
    tt_buf section = { 0 };
    tt_sites_pack(index->sites, 0, out);
    for (int32_t i = 0; i < index->count; i++) {
        if (index->row[i].count == 0)
            continue;
        put_row(&section, i, &index->row[i]);
        put_section(out, TT_SECTION_INDEX, &section);
        if (index->has_mesh)
            put_chain(&section, i, &index->row[i]);
        if (section.len > 0)
            put_section(out, TT_SECTION_CHAIN, &section);
    }
    tt_buf_varint(&section, index->sessions.count);
    tt_buf_varint(&section, index->notes.count);
    put_offsets(&section, &index->sessions);
    put_offsets(&section, &index->notes);
    put_section(out, TT_SECTION_PLACES, &section);
    for (uint32_t i = 0; i < index->holes.count; i++)
        tt_buf_varint(&section, (uint64_t)index->holes.at[i]);
    if (index->holes.count > 0)
        put_section(out, TT_SECTION_HOLES, &section);
    tt_buf_varint(&section, (uint64_t)index->lost_events);
    tt_buf_varint(&section, (uint64_t)index->lost_bytes);
    put_section(out, TT_SECTION_LOST, &section);
    tt_buf_free(&section);
}
