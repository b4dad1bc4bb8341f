/* points.c -- points of one site as columns in memory.
 *
 * Exists so that the writer's batch, the merging of chunks and the reader share
 * one form.  Nothing here knows how columns are packed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/points.h"

#include "base/wire.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define X(name, type_, product_) \
    [TT_COLUMN_##name] = { .type = TT_COLUMN_##type_, .product = TT_PRODUCT_##product_ },
const tt_column_kind tt_column_kinds[TT_COLUMN_COUNT_] = { TT_COLUMN_MAP(X) };
#undef X

void tt_points_free(tt_points *points)
{
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++) {
        free(points->cells[c]);
        tt_buf_free(&points->bytes[c]);
    }
    *points = (tt_points){ 0 };
}

void tt_points_clear(tt_points *points)
{
    points->n = 0;
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++) {
        points->used[c] = 0;
        points->bytes[c].len = 0;
    }
    memset(points->seen, 0, sizeof points->seen);
}

tt_status tt_points_reserve(tt_points *points, uint32_t n, uint32_t products)
{
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++) {
        uint32_t product = tt_column_kinds[c].product;
        if (product != 0 && (product & products) == 0)
            continue;
        tt_status st = tt_grow(&points->cells[c], &points->cap[c], n, sizeof *points->cells[c]);
        if (st < 0)
            return st;
    }
    return TT_OK;
}

static void put_bits(tt_points *points, tt_column column, uint64_t bits)
{
    assert(points->used[column] < points->cap[column]);
    points->cells[column][points->used[column]++] = bits;
}

static void put_int(tt_points *points, tt_column column, int64_t x)
{
    put_bits(points, column, (uint64_t)x);
}

static void put_float(tt_points *points, tt_column column, double x)
{
    put_bits(points, column, tt_bits_of(x));
}

static tt_status put_bytes(tt_points *points, tt_column column, const void *bytes, size_t n)
{
    tt_status st = n > 0 ? tt_buf_append(&points->bytes[column], bytes, n) : TT_OK;
    if (st == TT_OK)
        put_bits(points, column, n);
    return st;
}

tt_status tt_points_add(tt_points *points, const tt_record *record)
{
    uint32_t products = record->products;
    const char *tail = tt_record_tail(record);
    unsigned char shape[2 + 10 * TT_MAX_DIM];
    size_t shape_len = 0;
    put_int(points, TT_COLUMN_PRODUCTS, products);
    put_int(points, TT_COLUMN_STEP, record->step);
    put_int(points, TT_COLUMN_CALL, record->call);
    put_int(points, TT_COLUMN_TIME, record->time);
    put_int(points, TT_COLUMN_PHASE, record->phase | (record->is_skipped ? TT_PHASE_SKIPPED : 0));
    put_int(points, TT_COLUMN_THREAD, record->thread);
    if (products & TT_PRODUCT_SCALAR)
        put_float(points, TT_COLUMN_SCALAR, record->scalar);
    if (products & TT_PRODUCT_STATS) {
        tt_stats s;
        memcpy(&s, tail, sizeof s);
        tail += sizeof s;
#define X(name, field, type, read) put_##type(points, TT_COLUMN_##name, s.field);
        TT_STATS_COLUMN_MAP(X) TT_STATS_MORE_MAP(X) TT_STATS_REST_MAP(X)
#undef X
    }
    if (record->ndim >= 0) {
        unsigned char *at = tt_put_varint(shape, (uint64_t)record->ndim);
        for (int32_t d = 0; d < record->ndim; d++, tail += sizeof(int64_t)) {
            int64_t size;
            memcpy(&size, tail, sizeof size);
            at = tt_put_varint(at, (uint64_t)size);
        }
        shape_len = (size_t)(at - shape);
    }
    if (products & TT_PRODUCT_DIGEST) {
        tt_digest digest;
        memcpy(&digest, tail, sizeof digest);
        tail += sizeof digest;
        put_bits(points, TT_COLUMN_DIGEST_LO, digest.low);
        put_bits(points, TT_COLUMN_DIGEST_HI, digest.high);
    }
    tt_status st = put_bytes(points, TT_COLUMN_SHAPE, shape, shape_len);
    if (st == TT_OK && products & TT_PRODUCT_HIST)
        st = put_bytes(points, TT_COLUMN_HIST, tail, record->text_len);
    tail += record->text_len;
    if (st == TT_OK && products & TT_PRODUCT_SAMPLE)
        st = put_bytes(points, TT_COLUMN_SAMPLE, tail, record->more_len);
    if (products & TT_PRODUCT_VALUE)
        put_int(points, TT_COLUMN_VALUE_AT, record->value);
    points->n++;
    return st;
}

/* How many of the points before i have a product: where its entry is.  Of BYTES also
 * where the bytes are, in seen[column].at. */
static uint32_t entry_of(tt_points *points, tt_column column, uint32_t i)
{
    uint32_t product = tt_column_kinds[column].product, used = points->used[column];
    bool is_bytes = tt_column_kinds[column].type == TT_COLUMN_BYTES;
    if (used == points->n && !is_bytes)
        return i; /* every point has it */
    uint32_t point = points->seen[column].point, entry = points->seen[column].entry;
    size_t at = points->seen[column].at;
    if (point > i) {
        point = entry = 0;
        at = 0;
    }
    for (; point < i; point++) {
        if (product != 0 && (points->cells[TT_COLUMN_PRODUCTS][point] & product) == 0)
            continue;
        at += is_bytes && entry < used ? points->cells[column][entry] : 0;
        entry++;
    }
    points->seen[column].point = point;
    points->seen[column].entry = entry;
    points->seen[column].at = at;
    return entry;
}

const char *tt_points_bytes(tt_points *points, tt_column column, uint32_t i, size_t *len)
{
    uint32_t product = tt_column_kinds[column].product;
    if (product != 0 && (points->cells[TT_COLUMN_PRODUCTS][i] & product) == 0)
        return NULL;
    uint32_t entry = entry_of(points, column, i);
    if (entry >= points->used[column])
        return NULL;
    *len = points->cells[column][entry];
    return points->bytes[column].data != NULL ? points->bytes[column].data + points->seen[column].at : "";
}

static void get_shape(tt_points *points, uint32_t i, tt_point *out)
{
    size_t len = 0;
    const char *bytes = tt_points_bytes(points, TT_COLUMN_SHAPE, i, &len);
    out->ndim = -1;
    if (bytes == NULL || len == 0)
        return;
    tt_cursor cursor = tt_cursor_over(bytes, len);
    uint64_t ndim = tt_cursor_varint(&cursor);
    if (ndim > TT_MAX_DIM)
        return;
    for (uint64_t d = 0; d < ndim; d++)
        out->shape[d] = (int64_t)(tt_cursor_varint(&cursor) & INT64_MAX);
    if (!cursor.is_bad)
        out->ndim = (int32_t)ndim;
}

tt_status tt_points_copy(tt_points *points, tt_points *from, uint32_t i)
{
    uint32_t products = (uint32_t)from->cells[TT_COLUMN_PRODUCTS][i];
    tt_status st = tt_points_reserve(points, points->n + 1, products);
    for (size_t c = 0; st == TT_OK && c < TT_COLUMN_COUNT_; c++) {
        uint32_t product = tt_column_kinds[c].product;
        if (product != 0 && (products & product) == 0)
            continue;
        size_t len = 0;
        const char *bytes = NULL;
        if (tt_column_kinds[c].type == TT_COLUMN_BYTES)
            bytes = tt_points_bytes(from, (tt_column)c, i, &len);
        if (bytes != NULL)
            st = put_bytes(points, (tt_column)c, bytes, len);
        else
            put_bits(points, (tt_column)c, from->cells[c][entry_of(from, (tt_column)c, i)]);
    }
    points->n++;
    return st;
}

void tt_points_get(tt_points *points, uint32_t i, tt_point *out)
{
    assert(i < points->n);
    *out = (tt_point){ .scalar = NAN };
    uint32_t products = (uint32_t)points->cells[TT_COLUMN_PRODUCTS][i];
    out->products = products;
    out->step = (int64_t)points->cells[TT_COLUMN_STEP][i];
    out->time = (int64_t)points->cells[TT_COLUMN_TIME][i];
    out->call = (uint32_t)points->cells[TT_COLUMN_CALL][i];
    out->thread = (uint32_t)points->cells[TT_COLUMN_THREAD][i];
    out->phase = (uint8_t)(points->cells[TT_COLUMN_PHASE][i] & 0xff);
    out->is_skipped = (points->cells[TT_COLUMN_PHASE][i] & TT_PHASE_SKIPPED) != 0;
    if (products & TT_PRODUCT_SCALAR)
        out->scalar = tt_f64_of(points->cells[TT_COLUMN_SCALAR][entry_of(points, TT_COLUMN_SCALAR, i)]);
    if (products & TT_PRODUCT_STATS) {
        uint32_t e = entry_of(points, TT_COLUMN_COUNT, i);
#define X(name, field, type, read) out->stats.field = read(points->cells[TT_COLUMN_##name][e]);
        TT_STATS_COLUMN_MAP(X) TT_STATS_MORE_MAP(X) TT_STATS_REST_MAP(X)
#undef X
    }
    if (products & TT_PRODUCT_DIGEST) {
        uint32_t e = entry_of(points, TT_COLUMN_DIGEST_LO, i);
        out->digest =
            (tt_digest){ points->cells[TT_COLUMN_DIGEST_LO][e], points->cells[TT_COLUMN_DIGEST_HI][e] };
    }
    if (products & TT_PRODUCT_VALUE)
        out->value_at =
            (int64_t)points->cells[TT_COLUMN_VALUE_AT][entry_of(points, TT_COLUMN_VALUE_AT, i)];
    get_shape(points, i, out);
}

int64_t tt_points_nonfinite(const tt_points *points)
{
    uint32_t stats = 0, scalar = 0;
    for (uint32_t i = 0; i < points->n; i++) {
        uint64_t products = points->cells[TT_COLUMN_PRODUCTS][i];
        if (products & TT_PRODUCT_STATS) {
            if (points->cells[TT_COLUMN_NAN][stats] != 0 || points->cells[TT_COLUMN_POSINF][stats] != 0 ||
                points->cells[TT_COLUMN_NEGINF][stats] != 0)
                return i;
            stats++;
        }
        if (products & TT_PRODUCT_SCALAR) {
            uint64_t exponent = points->cells[TT_COLUMN_SCALAR][scalar] >> 52 & 0x7ff;
            if (exponent == 0x7ff)
                return i;
            scalar++;
        }
    }
    return -1;
}
