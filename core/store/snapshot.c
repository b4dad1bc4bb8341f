/* snapshot.c -- writes an index down, for the index blocks and the footer.
 *
 * Exists so that a reader of a long run starts from the latest snapshot and not
 * from the first block.  index.c reads it back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/index.h"

void tt_section_put(tt_wire *out, tt_section kind, const void *bytes, size_t len)
{
    tt_wire_varint(out, (uint64_t)kind);
    tt_wire_varint(out, len);
    tt_wire_bytes(out, bytes, len);
}

void tt_sites_pack(const tt_sites *sites, int32_t from, tt_wire *out)
{
    int32_t count = tt_sites_count(sites);
    if (from >= count)
        return;
    tt_wire section = { 0 };
    tt_wire_varint(&section, (uint64_t)from);
    for (int32_t i = from; i < count; i++) {
        const tt_site_row *row = tt_sites_row(sites, i);
        tt_wire_varint(&section, row->len);
        tt_wire_bytes(&section, row->name, row->len);
    }
    if (section.st == TT_OK)
        tt_section_put(out, TT_SECTION_SITES, section.buf.data, section.buf.len);
    else if (out->st == TT_OK)
        out->st = section.st;
    tt_buf_free(&section.buf);
}

static void put_row(tt_wire *section, int32_t site, const tt_index_site *row)
{
    int64_t at = 0, next = 0, step = 0;
    tt_wire_varint(section, (uint64_t)site);
    tt_wire_varint(section, (uint64_t)row->points);
    tt_wire_signed(section, row->nonfinite);
    tt_wire_varint(section, row->count);
    for (uint32_t i = 0; i < row->count; i++) {
        const tt_index_chunk *chunk = &row->chunks[i];
        tt_wire_signed(section, chunk->at - at);
        tt_wire_varint(section, (uint64_t)(chunk->first - next));
        tt_wire_varint(section, chunk->n);
        tt_wire_varint(section, chunk->len);
        tt_wire_signed(section, (int64_t)((uint64_t)chunk->first_step - (uint64_t)step));
        tt_wire_varint(section, (uint64_t)chunk->last_step - (uint64_t)chunk->first_step);
        at = chunk->at;
        next = chunk->first + chunk->n;
        step = chunk->last_step;
    }
}

static void put_places(tt_wire *section, const tt_places *places)
{
    int64_t before = 0;
    for (uint32_t i = 0; i < places->count; i++) {
        tt_wire_varint(section, (uint64_t)(places->at[i] - before));
        before = places->at[i];
    }
}

static void put_section(tt_wire *out, tt_section kind, tt_wire *section)
{
    if (section->st == TT_OK)
        tt_section_put(out, kind, section->buf.data, section->buf.len);
    else if (out->st == TT_OK)
        out->st = section->st;
    section->buf.len = 0;
}

void tt_index_pack(const tt_index *index, tt_wire *out)
{
    tt_wire section = { 0 };
    tt_sites_pack(index->sites, 0, out);
    for (int32_t i = 0; i < index->count; i++) {
        if (index->row[i].count == 0)
            continue;
        put_row(&section, i, &index->row[i]);
        put_section(out, TT_SECTION_INDEX, &section);
    }
    tt_wire_varint(&section, index->sessions.count);
    tt_wire_varint(&section, index->notes.count);
    put_places(&section, &index->sessions);
    put_places(&section, &index->notes);
    put_section(out, TT_SECTION_PLACES, &section);
    for (uint32_t i = 0; i < index->holes.count; i++)
        tt_wire_varint(&section, (uint64_t)index->holes.at[i]);
    if (index->holes.count > 0)
        put_section(out, TT_SECTION_HOLES, &section);
    tt_wire_varint(&section, (uint64_t)index->lost_events);
    tt_wire_varint(&section, (uint64_t)index->lost_bytes);
    put_section(out, TT_SECTION_LOST, &section);
    tt_buf_free(&section.buf);
}
