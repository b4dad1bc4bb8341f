/* chunk.c -- points of one site packed as columns, and unpacked.
 *
 * Exists so that one file knows the bytes of a column.  Numbers are packed by the
 * cheapest rule that holds for the whole column: the same, evenly spaced, small
 * differences, floats that fit 32 bits, near a guess (planes.c).  What is read may come from anywhere: every length
 * is checked before use, and no column grows beyond what its chunk says.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/chunk.h"

#include "base/float_mode.h"
#include "store/block.h"
#include "store/planes.h"

#include <stdlib.h>

#include <zstd.h>

/* ---- reading ----------------------------------------------------------------- */

static bool fits_type(tt_packing packing, tt_column_type type)
{
    enum { INT = 1 << TT_COLUMN_INT, FLOAT = 1 << TT_COLUMN_FLOAT, BYTES = 1 << TT_COLUMN_BYTES };
    static const unsigned types[TT_PACK_COUNT_] = {
        [TT_PACK_SAME] = INT | FLOAT | BYTES,
        [TT_PACK_LINEAR] = INT,
        [TT_PACK_DELTA] = INT,
        [TT_PACK_RAW] = INT | FLOAT,
        [TT_PACK_F32] = FLOAT,
        [TT_PACK_BYTES] = BYTES,
        [TT_PACK_ZSTD] = BYTES,
        [TT_PACK_PLANES] = INT | FLOAT,
    };
    return packing < TT_PACK_COUNT_ && (types[packing] & 1u << type) != 0;
}

/* Steps over the data of a column. */
static void skip_column(tt_cursor *cursor, tt_packing packing, tt_column_type type)
{
    if (packing == TT_PACK_LINEAR || packing == TT_PACK_ZSTD ||
        (packing == TT_PACK_SAME && type == TT_COLUMN_INT))
        (void)tt_cursor_varint(cursor);
    if (packing == TT_PACK_SAME && type == TT_COLUMN_FLOAT)
        (void)tt_cursor_take(cursor, 8);
    else if (packing == TT_PACK_LINEAR)
        (void)tt_cursor_varint(cursor);
    else if (packing != TT_PACK_SAME || type == TT_COLUMN_BYTES)
        (void)tt_cursor_take(cursor, tt_cursor_varint(cursor));
}

tt_status tt_chunk_parse(tt_chunk *out, const void *bytes, size_t len)
{
    tt_cursor cursor = tt_cursor_over(bytes, len);
    const unsigned char *check = tt_cursor_take(&cursor, 4);
    if (check == NULL || tt_get_u32(check) != (uint32_t)tt_block_hash(cursor.at, tt_cursor_left(&cursor)))
        return TT_EFORMAT;
    tt_chunk chunk = { 0 };
    uint64_t site = tt_cursor_varint(&cursor), first = tt_cursor_varint(&cursor);
    uint64_t n = tt_cursor_varint(&cursor);
    int64_t low = tt_cursor_signed(&cursor);
    uint64_t span = tt_cursor_varint(&cursor);
    if (cursor.is_bad || site > INT32_MAX || first > INT64_MAX / 2 || n == 0 || n > TT_CHUNK_POINTS_MAX)
        return TT_EFORMAT;
    chunk.site = (uint32_t)site;
    chunk.entry = (tt_index_chunk){ .first = (int64_t)first,
                                    .first_step = low,
                                    .last_step = (int64_t)((uint64_t)low + span),
                                    .len = (uint32_t)len,
                                    .n = (uint32_t)n };
    while (tt_cursor_left(&cursor) > 0) {
        uint64_t tag = tt_cursor_varint(&cursor), column = tag >> 3;
        tt_packing packing = (tt_packing)(tag & 7);
        if (cursor.is_bad || column >= TT_COLUMN_COUNT_ ||
            !fits_type(packing, tt_column_kinds[column].type))
            return TT_EFORMAT;
        const unsigned char *at = cursor.at;
        skip_column(&cursor, packing, tt_column_kinds[column].type);
        if (cursor.is_bad)
            return TT_EFORMAT;
        chunk.columns[column].at = at;
        chunk.columns[column].len = (size_t)(cursor.at - at);
        chunk.columns[column].packing = packing;
    }
    *out = chunk;
    return TT_OK;
}

/* How many points have a product.  Mostly all have the same ones. */
static uint32_t count_entries(const tt_chunk *chunk, const uint64_t *products, uint32_t product)
{
    uint32_t n = chunk->entry.n, entries = 0;
    if (product == 0)
        return n;
    if (chunk->columns[TT_COLUMN_PRODUCTS].packing == TT_PACK_SAME)
        return (products[0] & product) != 0 ? n : 0;
    for (uint32_t i = 0; i < n; i++)
        entries += (products[i] & product) != 0;
    return entries;
}

/* Moves the entries of a product to the points that have it; the others get 0. */
static void spread(uint64_t *cells, uint32_t entries, const uint64_t *products, uint32_t product,
                   uint32_t n)
{
    for (uint32_t i = n; i > entries; i--)
        cells[i - 1] = (products[i - 1] & product) != 0 ? cells[--entries] : 0;
}

static tt_status unpack_numbers(tt_cursor cursor, tt_packing packing, bool is_int, uint64_t *out,
                                uint32_t n)
{
    if (packing == TT_PACK_SAME || packing == TT_PACK_LINEAR) {
        uint64_t x = is_int ? tt_unzigzag(tt_cursor_varint(&cursor)) : tt_get_u64(cursor.at);
        uint64_t difference = packing == TT_PACK_LINEAR ? tt_unzigzag(tt_cursor_varint(&cursor)) : 0;
        for (uint32_t i = 0; i < n; i++, x += difference)
            out[i] = x;
        return TT_OK;
    }
    uint64_t len = tt_cursor_varint(&cursor);
    if (packing == TT_PACK_DELTA) {
        uint64_t x = 0;
        for (uint32_t i = 0; i < n; i++)
            out[i] = x += tt_unzigzag(tt_cursor_varint(&cursor));
        return cursor.is_bad || tt_cursor_left(&cursor) > 0 ? TT_EFORMAT : TT_OK;
    }
    if (packing == TT_PACK_RAW) {
        if (len != (uint64_t)n * 8)
            return TT_EFORMAT;
        memcpy(out, cursor.at, len);
        return TT_OK;
    }
    if (len != (uint64_t)n * 4)
        return TT_EFORMAT;
    uint64_t mode = tt_float_mode_begin();
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = tt_get_u32(cursor.at + (size_t)i * 4);
        float narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        out[i] = tt_bits_of((double)narrow);
    }
    tt_float_mode_end(mode);
    return TT_OK;
}

/* Unpacks the n entries of a column that is there and needs no guess. */
static tt_status unpack_plain(const tt_chunk *chunk, tt_column column, uint64_t *out, uint32_t n)
{
    tt_cursor data = tt_cursor_over(chunk->columns[column].at, chunk->columns[column].len);
    if (chunk->columns[column].packing == TT_PACK_PLANES)
        return tt_planes_take(data, NULL, n, out);
    return unpack_numbers(data, chunk->columns[column].packing,
                          tt_column_kinds[column].type == TT_COLUMN_INT, out, n);
}

/* Numbers of a chunk on their way into cells. */
typedef struct unpacking {
    const tt_chunk *chunk;
    const uint64_t *products;              /* of each point */
    uint64_t *room;                        /* for a guess, and for each of its bases */
    const uint64_t *base[TT_GUESS_COUNT_]; /* entries that are unpacked already; NULL: not yet */
} unpacking;

static bool is_guessed(const tt_chunk *chunk, size_t column)
{
    return chunk->columns[column].at != NULL && chunk->columns[column].packing == TT_PACK_PLANES &&
           tt_planes_are_guessed(tt_cursor_over(chunk->columns[column].at, chunk->columns[column].len));
}

/* Unpacks the n entries of a guessed column; a base of several columns is unpacked once. */
static tt_status unpack_guessed(unpacking *u, tt_column column, uint64_t *out, uint32_t n)
{
    const tt_chunk *chunk = u->chunk;
    unsigned wanted = tt_guess_bases(column);
    tt_status st = wanted != 0 ? TT_OK : TT_EFORMAT;
    for (size_t k = 0; st == TT_OK && k < TT_GUESS_COUNT_; k++) {
        if ((wanted >> k & 1) == 0 || u->base[k] != NULL)
            continue;
        uint64_t *base = u->room + n * (k + 1);
        u->base[k] = base;
        if (chunk->columns[tt_guess_columns[k]].at != NULL)
            st = unpack_plain(chunk, tt_guess_columns[k], base, n);
        else
            memset(base, 0, n * sizeof *base);
    }
    if (st < 0)
        return st;
    tt_guess(column, u->base, n, u->room);
    return tt_planes_take(tt_cursor_over(chunk->columns[column].at, chunk->columns[column].len), u->room,
                          n, out);
}

static tt_status unpack_cells(unpacking *u, tt_column column, bool has_guess, uint64_t *cells)
{
    uint32_t product = tt_column_kinds[column].product, n = u->chunk->entry.n;
    uint32_t entries = count_entries(u->chunk, u->products, product);
    if (u->chunk->columns[column].at == NULL || entries == 0) {
        memset(cells, 0, n * sizeof *cells);
        return TT_OK;
    }
    tt_status st = has_guess ? unpack_guessed(u, column, cells, entries)
                             : unpack_plain(u->chunk, column, cells, entries);
    if (st == TT_OK && entries < n)
        spread(cells, entries, u->products, product, n);
    else if (st == TT_OK && !has_guess)
        for (size_t k = 0; k < TT_GUESS_COUNT_; k++)
            u->base[k] = tt_guess_columns[k] == column ? cells : u->base[k];
    return st;
}

tt_status tt_chunk_numbers(const tt_chunk *chunk, const uint64_t *products,
                           uint64_t *const cells[TT_COLUMN_COUNT_], tt_buf *scratch)
{
    unpacking u = { .chunk = chunk, .products = products };
    size_t guessed[TT_COLUMN_COUNT_], count = 0; /* for the end: no base is guessed */
    tt_status st = TT_OK;
    for (size_t c = 0; st == TT_OK && c < TT_COLUMN_COUNT_; c++) {
        if (cells[c] == NULL)
            continue;
        if (is_guessed(chunk, c))
            guessed[count++] = c;
        else
            st = unpack_cells(&u, (tt_column)c, false, cells[c]);
    }
    if (st == TT_OK && count > 0) {
        tt_buf_clear(scratch);
        u.room = (uint64_t *)(void *)tt_wire_room(scratch, (size_t)chunk->entry.n *
                                                               (TT_GUESS_COUNT_ + 1) * sizeof *u.room);
        st = u.room != NULL ? TT_OK : scratch->st;
    }
    for (size_t k = 0; st == TT_OK && k < count; k++)
        st = unpack_cells(&u, (tt_column)guessed[k], true, cells[guessed[k]]);
    return st;
}

tt_status tt_chunk_column(const tt_chunk *chunk, tt_column column, const uint64_t *products,
                          uint64_t *out, tt_buf *scratch)
{
    uint64_t *cells[TT_COLUMN_COUNT_] = { NULL };
    cells[column] = out;
    return tt_chunk_numbers(chunk, products, cells, scratch);
}

/* Reads n lengths and the bytes they count. */
static tt_status take_lengths(tt_cursor cursor, uint64_t *cells, uint32_t n, tt_buf *bytes)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        cells[i] = tt_cursor_varint(&cursor);
        if (cells[i] > TT_COLUMN_BYTES_MAX || (total += cells[i]) > TT_COLUMN_BYTES_MAX)
            return TT_EFORMAT;
    }
    const unsigned char *at = tt_cursor_take(&cursor, total);
    if (at == NULL || tt_cursor_left(&cursor) > 0)
        return TT_EFORMAT;
    return tt_buf_append(bytes, at, total);
}

static tt_status unpack_bytes(const tt_chunk *chunk, tt_column column, uint64_t *cells, uint32_t n,
                              tt_buf *bytes)
{
    if (chunk->columns[column].at == NULL) {
        memset(cells, 0, n * sizeof *cells);
        return TT_OK;
    }
    tt_cursor cursor = tt_cursor_over(chunk->columns[column].at, chunk->columns[column].len);
    uint64_t len = tt_cursor_varint(&cursor);
    tt_status st = TT_OK;
    if (chunk->columns[column].packing == TT_PACK_SAME) {
        if (len * n > TT_COLUMN_BYTES_MAX || len > TT_COLUMN_BYTES_MAX)
            return TT_EFORMAT;
        for (uint32_t i = 0; st == TT_OK && i < n; i++) {
            cells[i] = len;
            st = tt_buf_append(bytes, cursor.at, len);
        }
        return st;
    }
    if (chunk->columns[column].packing == TT_PACK_BYTES)
        return take_lengths(cursor, cells, n, bytes);
    uint64_t packed = tt_cursor_varint(&cursor); /* TT_PACK_ZSTD, as fits_type() has it */
    if (len > TT_COLUMN_BYTES_MAX + (uint64_t)n * 4)
        return TT_EFORMAT;
    char *plain = malloc(len + 1);
    if (plain == NULL)
        return TT_ENOMEM;
    size_t got = ZSTD_decompress(plain, len, cursor.at, packed);
    st = got == len ? take_lengths(tt_cursor_over(plain, len), cells, n, bytes) : TT_EFORMAT;
    free(plain);
    return st;
}

tt_status tt_chunk_bytes(const tt_chunk *chunk, tt_column column, const uint64_t *products,
                         uint64_t *cells, tt_buf *bytes)
{
    uint32_t product = tt_column_kinds[column].product, n = chunk->entry.n;
    uint32_t entries = count_entries(chunk, products, product);
    uint64_t end = bytes->len;
    tt_status st = unpack_bytes(chunk, column, cells, entries, bytes);
    if (st < 0)
        return st;
    spread(cells, entries, products, product, n);
    for (uint32_t i = 0; i < n; i++)
        cells[i] = end += cells[i];
    return TT_OK;
}

tt_status tt_chunk_unpack(const tt_chunk *chunk, uint32_t skipped, tt_points *points)
{
    uint32_t n = chunk->entry.n, before = points->n;
    if (n > UINT32_MAX / 2 - before)
        return TT_EFORMAT;
    tt_status st = tt_points_reserve(points, before + n, 0);
    if (st < 0)
        return st;
    uint64_t *products = points->cells[TT_COLUMN_PRODUCTS] + before;
    st = tt_chunk_column(chunk, TT_COLUMN_PRODUCTS, NULL, products, &points->scratch);
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++)
        all |= (uint32_t)products[i];
    if (st == TT_OK)
        st = tt_points_reserve(points, before + n, all & ~skipped);
    uint64_t *numbers[TT_COLUMN_COUNT_] = { NULL };
    for (size_t c = 0; st == TT_OK && c < TT_COLUMN_COUNT_; c++) {
        if (!tt_points_have(points->products, c))
            continue;
        uint64_t *cells = points->cells[c] + before;
        if (tt_column_kinds[c].type == TT_COLUMN_BYTES)
            st = tt_chunk_bytes(chunk, (tt_column)c, products, cells, &points->bytes[c]);
        else if (c != TT_COLUMN_PRODUCTS)
            numbers[c] = cells;
    }
    if (st == TT_OK)
        st = tt_chunk_numbers(chunk, products, numbers, &points->scratch);
    points->n += n;
    return st; /* after a failure the points are good for tt_points_clear only */
}

/* ---- writing ----------------------------------------------------------------- */

static bool is_all_same(const uint64_t *cells, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (cells[i] != cells[0])
            return false;
    return true;
}

static bool is_linear(const uint64_t *cells, uint32_t n)
{
    for (uint32_t i = 2; i < n; i++)
        if (cells[i] - cells[i - 1] != cells[1] - cells[0])
            return false;
    return n >= 2;
}

static bool fits_f32(const uint64_t *cells, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        double x = tt_f64_of(cells[i]);
        if (x == x && (x > 3.4e38 || x < -3.4e38) && x - x == 0)
            return false; /* finite, but beyond f32: the conversion is not defined */
        if (tt_bits_of((double)(float)x) != cells[i])
            return false;
    }
    return true;
}

static void put_tag(tt_buf *out, size_t column, tt_packing packing)
{
    tt_buf_varint(out, (uint64_t)column << 3 | (uint64_t)packing);
}

static void put_raw(tt_buf *out, size_t column, const uint64_t *cells, uint32_t n)
{
    put_tag(out, column, TT_PACK_RAW);
    tt_buf_varint(out, (uint64_t)n * 8);
    tt_buf_append(out, cells, (size_t)n * 8);
}

static void put_f32(tt_buf *out, size_t column, const uint64_t *cells, uint32_t n)
{
    put_tag(out, column, TT_PACK_F32);
    tt_buf_varint(out, (uint64_t)n * 4);
    unsigned char *at = tt_wire_room(out, (size_t)n * 4);
    for (uint32_t i = 0; at != NULL && i < n; i++) {
        float narrow = (float)tt_f64_of(cells[i]);
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        tt_put_u32(at + (size_t)i * 4, bits);
    }
}

/* Writes differences behind a length of fixed width (5 bytes of varint), falling
 * back to raw numbers where those are shorter. */
static void put_delta(tt_buf *out, size_t column, const uint64_t *cells, uint32_t n)
{
    size_t start = out->len;
    put_tag(out, column, TT_PACK_DELTA);
    size_t length_at = out->len;
    unsigned char *room = tt_wire_room(out, 5 + (size_t)n * 10);
    if (room == NULL)
        return;
    unsigned char *at = room + 5;
    uint64_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        at = tt_put_varint(at, tt_zigzag(cells[i] - before));
        before = cells[i];
    }
    size_t len = (size_t)(at - room) - 5;
    if (len >= (size_t)n * 8) {
        out->len = start;
        put_raw(out, column, cells, n);
        return;
    }
    for (int i = 0; i < 5; i++) /* a varint may be longer than it needs to be */
        room[i] = (unsigned char)((len >> 7 * i & 0x7f) | (i < 4 ? 0x80 : 0));
    out->len = length_at + 5 + len;
}

static bool is_all_same_bytes(const uint64_t *lengths, uint32_t n, const char *bytes)
{
    for (uint32_t i = 1; i < n; i++)
        if (lengths[i] != lengths[0] || memcmp(bytes + i * lengths[0], bytes, lengths[0]) != 0)
            return false;
    return true;
}

static void put_bytes(tt_buf *out, size_t column, const uint64_t *lengths, uint32_t n,
                      const tt_buf *bytes)
{
    if (bytes->len == 0)
        return;
    if (is_all_same_bytes(lengths, n, bytes->data)) {
        put_tag(out, column, TT_PACK_SAME);
        tt_buf_varint(out, lengths[0]);
        tt_buf_append(out, bytes->data, lengths[0]);
        return;
    }
    tt_buf plain = { 0 }, packed = { 0 };
    for (uint32_t i = 0; i < n; i++)
        tt_buf_varint(&plain, lengths[i]);
    (void)tt_buf_append(&plain, bytes->data, bytes->len);
    size_t bound = ZSTD_compressBound(plain.len), len = plain.len;
    unsigned char *room = plain.len > 256 ? tt_wire_room(&packed, bound) : NULL;
    if (room != NULL)
        len = ZSTD_compress(room, bound, plain.data, plain.len, 1); /* or an error, a large number */
    bool is_smaller = len < plain.len;
    put_tag(out, column, is_smaller ? TT_PACK_ZSTD : TT_PACK_BYTES);
    tt_buf_varint(out, plain.len);
    if (is_smaller) {
        tt_buf_varint(out, len);
        (void)tt_buf_append(out, room, len);
    } else {
        tt_wire_buf(out, &plain);
    }
    tt_buf_free(&packed);
    tt_buf_free(&plain);
}

static void put_plain(tt_buf *out, size_t column, const uint64_t *cells, uint32_t n)
{
    bool is_int = tt_column_kinds[column].type == TT_COLUMN_INT;
    if (n == 1 && !is_int && fits_f32(cells, n)) {
        put_f32(out, column, cells, n);
    } else if (is_all_same(cells, n)) {
        put_tag(out, column, TT_PACK_SAME);
        if (is_int)
            tt_buf_varint(out, tt_zigzag(cells[0]));
        else
            tt_buf_fixed(out, cells[0], 8);
    } else if (is_int && is_linear(cells, n)) {
        put_tag(out, column, TT_PACK_LINEAR);
        tt_buf_varint(out, tt_zigzag(cells[0]));
        tt_buf_varint(out, tt_zigzag(cells[1] - cells[0]));
    } else if (is_int) {
        put_delta(out, column, cells, n);
    } else if (fits_f32(cells, n)) {
        put_f32(out, column, cells, n);
    } else {
        put_raw(out, column, cells, n);
    }
}

/* Puts what the shortest packing makes of a column of numbers.  guesses: NULL: none. */
static void put_numbers(tt_buf *out, size_t column, const uint64_t *cells, const uint64_t *guesses,
                        uint32_t n)
{
    size_t start = out->len;
    if (cells[0] == 0 && is_all_same(cells, n))
        return;
    put_plain(out, column, cells, n);
    size_t plain = out->len - start;
    unsigned packing = out->st == TT_OK ? (unsigned char)out->data[start] & 7 : TT_PACK_SAME;
    bool is_long = packing == TT_PACK_DELTA || packing == TT_PACK_RAW || packing == TT_PACK_F32;
    if (out->st < 0 || (guesses == NULL && !is_long))
        return;
    tt_buf better = { 0 };
    put_tag(&better, column, TT_PACK_PLANES);
    bool is_int = tt_column_kinds[column].type == TT_COLUMN_INT;
    if (tt_planes_put(&better, cells, guesses, n, is_int, plain - better.len)) {
        out->len = start;
        tt_wire_buf(out, &better);
    }
    tt_buf_free(&better);
}

/* What the points have in a column, one behind the other.  Returns how many. */
static uint32_t pick(const tt_points *points, size_t column, uint64_t *entries)
{
    const uint64_t *cells = points->cells[column], *products = points->cells[TT_COLUMN_PRODUCTS];
    bool is_bytes = tt_column_kinds[column].type == TT_COLUMN_BYTES;
    uint32_t n = 0;
    for (uint32_t i = 0; i < points->n; i++)
        if (tt_points_have((uint32_t)products[i], column))
            entries[n++] = cells[i] - (is_bytes && i > 0 ? cells[i - 1] : 0);
    return n;
}

/* Guesses a column; room: for the bases.  NULL: it is not guessed. */
static const uint64_t *guess(size_t column, const tt_points *points, uint64_t *room)
{
    unsigned wanted = tt_guess_bases((tt_column)column);
    const uint64_t *bases[TT_GUESS_COUNT_] = { NULL };
    uint32_t n = 0;
    for (size_t k = 0; k < TT_GUESS_COUNT_; k++)
        if ((wanted >> k & 1) != 0) {
            uint64_t *base = room + (k + 1) * points->n;
            bases[k] = base;
            n = pick(points, tt_guess_columns[k], base);
        }
    if (n == 0)
        return NULL;
    tt_guess((tt_column)column, bases, n, room);
    return room;
}

/* Puts what the points have in a column; scratch: room for entries, a guess and its bases. */
static void put_column(tt_buf *out, size_t column, const tt_points *points, tt_buf *scratch)
{
    tt_buf_clear(scratch);
    uint64_t *entries = (uint64_t *)(void *)tt_wire_room(
        scratch, (size_t)points->n * (TT_GUESS_COUNT_ + 2) * sizeof *entries);
    uint32_t n = entries != NULL ? pick(points, column, entries) : 0;
    if (entries == NULL)
        out->st = scratch->st;
    else if (tt_column_kinds[column].type == TT_COLUMN_BYTES)
        put_bytes(out, column, entries, n, &points->bytes[column]);
    else if (n > 0)
        put_numbers(out, column, entries, guess(column, points, entries + points->n), n);
}

static void put_steps(tt_buf *out, const tt_points *points)
{
    const uint64_t *steps = points->cells[TT_COLUMN_STEP];
    int64_t low = (int64_t)steps[0], high = low;
    for (uint32_t i = 1; i < points->n; i++) {
        int64_t step = (int64_t)steps[i];
        low = step < low ? step : low;
        high = step > high ? step : high;
    }
    tt_wire_signed(out, low);
    tt_buf_varint(out, (uint64_t)high - (uint64_t)low);
}

void tt_chunk_pack(tt_buf *out, uint32_t site, int64_t first, const tt_points *points)
{
    size_t start = out->len;
    (void)tt_wire_room(out, 4);
    tt_buf_varint(out, site);
    tt_buf_varint(out, (uint64_t)first);
    tt_buf_varint(out, points->n);
    put_steps(out, points);
    tt_buf scratch = { 0 };
    for (size_t column = 0; column < TT_COLUMN_COUNT_; column++)
        if (tt_points_have(points->products, column))
            put_column(out, column, points, &scratch);
    tt_buf_free(&scratch);
    if (out->st == TT_OK)
        tt_put_u32((unsigned char *)out->data + start,
                   (uint32_t)tt_block_hash(out->data + start + 4, out->len - start - 4));
}
