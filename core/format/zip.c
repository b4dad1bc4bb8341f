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

/* A number of a header, and how many bytes it takes; 0 bytes: the end. */
typedef struct field {
    uint64_t number;
    size_t bytes;
} field;

static void put_fields(tt_buf *out, const field *fields)
{
    for (; fields->bytes > 0; fields++)
        tt_buf_fixed(out, fields->number, fields->bytes);
}
#define PUT(out, ...) put_fields((out), (const field[]){ __VA_ARGS__, { 0, 0 } })

void tt_zip_begin(tt_zip *zip, const char *name, uint64_t bytes, tt_buf *out)
{
    assert(zip->count < TT_ZIP_ENTRIES);
    size_t name_len = strlen(name), wide = is_wide(bytes) ? EXTRA_HEAD + 16 : 0;
    uint64_t at = out->len + zip->elsewhere;
    uint64_t start = at + LOCAL_BYTES + name_len + wide + EXTRA_HEAD;
    size_t pad = (size_t)((zip->align - start % zip->align) % zip->align);
    uint64_t version = wide > 0 ? VERSION_64 : 0, size = wide > 0 ? UINT64_MAX : 0;
    /* Stored; time and date are none; the CRC comes behind the bytes. */
    PUT(out, { 0x04034b50, 4 }, { version, 2 }, { FLAGS, 2 }, { 0, 2 + 2 + 2 }, { 0, 4 }, { size, 4 + 4 },
        { name_len, 2 }, { wide + EXTRA_HEAD + pad, 2 });
    tt_buf_text(out, name);
    if (wide > 0)
        PUT(out, { EXTRA_64, 2 }, { 16, 2 }, { bytes, 8 }, { bytes, 8 });
    PUT(out, { EXTRA_PAD, 2 }, { pad, 2 });
    unsigned char *room = tt_wire_room(out, pad);
    if (room != NULL)
        memset(room, 'Z', pad);
    zip->entry[zip->count++] = (tt_zip_entry){ .name = name, .bytes = bytes, .at = at };
}

void tt_zip_end(tt_zip *zip, uint32_t crc, tt_buf *out)
{
    tt_zip_entry *entry = &zip->entry[zip->count - 1];
    size_t size = is_wide(entry->bytes) ? 8 : 4;
    entry->crc = crc;
    PUT(out, { 0x08074b50, 4 }, { crc, 4 }, { entry->bytes, size }, { entry->bytes, size });
}

void tt_zip_add(tt_zip *zip, const char *name, const void *bytes, size_t n, tt_buf *out)
{
    tt_zip_begin(zip, name, n, out);
    (void)tt_buf_append(out, bytes, n);
    tt_zip_end(zip, tt_crc32(0, bytes, n), out);
}

static void put_row(const tt_zip_entry *entry, tt_buf *out)
{
    bool has_bytes = is_wide(entry->bytes), has_at = is_wide(entry->at);
    size_t wide = (has_bytes ? 16u : 0u) + (has_at ? 8u : 0u);
    uint64_t version = wide > 0 ? VERSION_64 : 0, bytes = narrow(entry->bytes);
    /* No comment, on the first disk, no attributes. */
    PUT(out, { 0x02014b50, 4 }, { version, 2 }, { version, 2 }, { FLAGS, 2 }, { 0, 2 + 2 + 2 },
        { entry->crc, 4 }, { bytes, 4 }, { bytes, 4 }, { strlen(entry->name), 2 },
        { wide > 0 ? wide + EXTRA_HEAD : 0, 2 }, { 0, 2 + 2 }, { 0, 2 + 4 }, { narrow(entry->at), 4 });
    tt_buf_text(out, entry->name);
    if (wide > 0)
        PUT(out, { EXTRA_64, 2 }, { wide, 2 });
    if (has_bytes)
        PUT(out, { entry->bytes, 8 }, { entry->bytes, 8 });
    if (has_at)
        tt_buf_fixed(out, entry->at, 8);
}

void tt_zip_finish(tt_zip *zip, tt_buf *out)
{
    uint64_t at = out->len + zip->elsewhere;
    for (uint32_t i = 0; i < zip->count; i++)
        put_row(&zip->entry[i], out);
    uint64_t end = out->len + zip->elsewhere;
    enum { FOLLOWING = 44 }; /* bytes of the zip64 end behind this number */
    if (is_wide(at))
        PUT(out, { 0x06064b50, 4 }, { FOLLOWING, 8 }, { VERSION_64, 2 }, { VERSION_64, 2 }, { 0, 4 + 4 },
            { zip->count, 8 }, { zip->count, 8 }, { end - at, 8 }, { at, 8 }, { 0x07064b50, 4 }, { 0, 4 },
            { end, 8 }, { 1, 4 });
    PUT(out, { 0x06054b50, 4 }, { 0, 2 + 2 }, { zip->count, 2 }, { zip->count, 2 }, { end - at, 4 },
        { narrow(at), 4 }, { 0, 2 });
}
