/* zip.c -- an uncompressed zip archive, written from front to back.
 *
 * Exists because a .pt file is one.  Laid out as torch lays it out: entries
 * aligned by an extra field "FB", the CRC behind the bytes (so that they are
 * read once), zip64 only where a number needs it.
 *
 *     local header  name  extra  bytes  descriptor      for each entry
 *     central directory: one row for each entry
 *     [zip64 end, zip64 locator]  end
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/zip.h"

#include <assert.h>
#include <libdeflate.h>
#include <string.h>

enum {
    LOCAL_BYTES = 30,
    FLAGS = 0x0808,     /* UTF-8 names; the descriptor has the CRC */
    VERSION_64 = 45,    /* of zip, needed to read zip64 */
    EXTRA_64 = 0x0001,  /* id of the extra field with 64-bit numbers */
    EXTRA_PAD = 0x4246, /* "FB" */
    EXTRA_HEAD = 4,
};

uint32_t tt_crc32(uint32_t crc, const void *bytes, size_t n)
{
    return libdeflate_crc32(crc, bytes, n);
}

static bool is_wide(uint64_t number)
{
    return number >= UINT32_MAX;
}

static uint32_t narrow(uint64_t number)
{
    return is_wide(number) ? UINT32_MAX : (uint32_t)number;
}

/* Little-endian numbers, one behind the other. */
typedef struct pen {
    uint8_t bytes[96];
    size_t len;
} pen;

static void put(pen *p, uint64_t number, size_t bytes)
{
    assert(p->len + bytes <= sizeof p->bytes);
    for (size_t i = 0; i < bytes; i++)
        p->bytes[p->len++] = (uint8_t)(number >> (8 * i));
}

static tt_status put_padding(size_t n, tt_buf *out)
{
    tt_status st = tt_buf_reserve(out, n);
    if (st < 0)
        return st;
    memset(out->data + out->len, 'Z', n);
    out->len += n;
    out->data[out->len] = '\0';
    return TT_OK;
}

tt_status tt_zip_begin(tt_zip *zip, const char *name, uint64_t bytes, tt_buf *out)
{
    assert(zip->count < TT_ZIP_ENTRIES);
    size_t name_len = strlen(name), wide = is_wide(bytes) ? EXTRA_HEAD + 16 : 0;
    uint64_t at = out->len + zip->elsewhere;
    uint64_t start = at + LOCAL_BYTES + name_len + wide + EXTRA_HEAD;
    size_t pad = (size_t)((zip->align - start % zip->align) % zip->align);
    pen p = { .len = 0 };
    put(&p, 0x04034b50, 4);
    put(&p, wide > 0 ? VERSION_64 : 0, 2);
    put(&p, FLAGS, 2);
    put(&p, 0, 2 + 2 + 2); /* stored; time and date are none */
    put(&p, 0, 4);         /* CRC: behind the bytes */
    put(&p, wide > 0 ? UINT32_MAX : 0, 4);
    put(&p, wide > 0 ? UINT32_MAX : 0, 4);
    put(&p, name_len, 2);
    put(&p, wide + EXTRA_HEAD + pad, 2);
    tt_status st = tt_buf_append(out, p.bytes, p.len);
    if (st == TT_OK)
        st = tt_buf_append(out, name, name_len);
    p.len = 0;
    if (wide > 0) {
        put(&p, EXTRA_64, 2);
        put(&p, 16, 2);
        put(&p, bytes, 8);
        put(&p, bytes, 8);
    }
    put(&p, EXTRA_PAD, 2);
    put(&p, pad, 2);
    if (st == TT_OK)
        st = tt_buf_append(out, p.bytes, p.len);
    if (st == TT_OK)
        st = put_padding(pad, out);
    if (st == TT_OK)
        zip->entry[zip->count++] = (tt_zip_entry){ .name = name, .bytes = bytes, .at = at };
    return st;
}

tt_status tt_zip_end(tt_zip *zip, uint32_t crc, tt_buf *out)
{
    tt_zip_entry *entry = &zip->entry[zip->count - 1];
    size_t size = is_wide(entry->bytes) ? 8 : 4;
    pen p = { .len = 0 };
    entry->crc = crc;
    put(&p, 0x08074b50, 4);
    put(&p, crc, 4);
    put(&p, entry->bytes, size);
    put(&p, entry->bytes, size);
    return tt_buf_append(out, p.bytes, p.len);
}

tt_status tt_zip_add(tt_zip *zip, const char *name, const void *bytes, size_t n, tt_buf *out)
{
    tt_status st = tt_zip_begin(zip, name, n, out);
    if (st == TT_OK)
        st = tt_buf_append(out, bytes, n);
    return st == TT_OK ? tt_zip_end(zip, tt_crc32(0, bytes, n), out) : st;
}

static tt_status put_row(const tt_zip_entry *entry, tt_buf *out)
{
    bool has_bytes = is_wide(entry->bytes), has_at = is_wide(entry->at);
    size_t wide = (has_bytes ? 16u : 0u) + (has_at ? 8u : 0u), name_len = strlen(entry->name);
    pen p = { .len = 0 };
    put(&p, 0x02014b50, 4);
    put(&p, wide > 0 ? VERSION_64 : 0, 2);
    put(&p, wide > 0 ? VERSION_64 : 0, 2);
    put(&p, FLAGS, 2);
    put(&p, 0, 2 + 2 + 2);
    put(&p, entry->crc, 4);
    put(&p, narrow(entry->bytes), 4);
    put(&p, narrow(entry->bytes), 4);
    put(&p, name_len, 2);
    put(&p, wide > 0 ? wide + EXTRA_HEAD : 0, 2);
    put(&p, 0, 2 + 2); /* no comment; the first disk */
    put(&p, 0, 2 + 4); /* attributes */
    put(&p, narrow(entry->at), 4);
    tt_status st = tt_buf_append(out, p.bytes, p.len);
    if (st == TT_OK)
        st = tt_buf_append(out, entry->name, name_len);
    p.len = 0;
    if (wide > 0) {
        put(&p, EXTRA_64, 2);
        put(&p, wide, 2);
    }
    if (has_bytes) {
        put(&p, entry->bytes, 8);
        put(&p, entry->bytes, 8);
    }
    if (has_at)
        put(&p, entry->at, 8);
    return st == TT_OK ? tt_buf_append(out, p.bytes, p.len) : st;
}

tt_status tt_zip_finish(tt_zip *zip, tt_buf *out)
{
    uint64_t at = out->len + zip->elsewhere;
    tt_status st = TT_OK;
    for (uint32_t i = 0; st == TT_OK && i < zip->count; i++)
        st = put_row(&zip->entry[i], out);
    if (st < 0)
        return st;
    uint64_t end = out->len + zip->elsewhere;
    pen p = { .len = 0 };
    if (is_wide(at)) {
        put(&p, 0x06064b50, 4);
        put(&p, 44, 8); /* of what follows */
        put(&p, VERSION_64, 2);
        put(&p, VERSION_64, 2);
        put(&p, 0, 4 + 4);
        put(&p, zip->count, 8);
        put(&p, zip->count, 8);
        put(&p, end - at, 8);
        put(&p, at, 8);
        put(&p, 0x07064b50, 4);
        put(&p, 0, 4);
        put(&p, end, 8);
        put(&p, 1, 4);
        st = tt_buf_append(out, p.bytes, p.len);
        p.len = 0;
    }
    put(&p, 0x06054b50, 4);
    put(&p, 0, 2 + 2);
    put(&p, zip->count, 2);
    put(&p, zip->count, 2);
    put(&p, end - at, 4);
    put(&p, narrow(at), 4);
    put(&p, 0, 2);
    return st == TT_OK ? tt_buf_append(out, p.bytes, p.len) : st;
}
