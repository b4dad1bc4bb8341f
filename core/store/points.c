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
    tt_buf_free(&points->scratch);
    *points = (tt_points){ 0 };
}

void tt_points_clear(tt_points *points)
{
    points->n = points->products = 0;
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++)
        points->bytes[c].len = 0;
}

tt_status tt_points_reserve(tt_points *points, uint32_t n, uint32_t products)
{
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++) {
        if (!tt_points_have(points->products | products, c))
            continue;
        tt_status st = tt_grow(&points->cells[c], &points->cap[c], n, sizeof *points->cells[c]);
        if (st < 0)
            return st;
        if (!tt_points_have(points->products, c)) /* the points before have none */
            memset(points->cells[c], 0, points->n * sizeof *points->cells[c]);
    }
    points->products |= products;
    return TT_OK;
}

static void put_bits(tt_points *points, tt_column column, uint64_t bits)
{
    assert(points->n < points->cap[column]);
    points->cells[column][points->n] = bits;
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
    put_bits(points, column, points->bytes[column].len);
    return st;
}

/* What a point has in the columns of products that only others have. */
static void put_nothing(tt_points *points)
{
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++)
        if (tt_points_have(points->products, c))
            put_bits(points, (tt_column)c, points->bytes[c].len);
}

tt_status tt_points_add(tt_points *points, const tt_record *record)
{
    uint32_t products = record->products;
    const char *tail = tt_record_tail(record);
    unsigned char shape[2 + 10 * TT_MAX_DIM];
    size_t shape_len = 0, tokens = record->ndim > 0 ? 1 : 0;
    if (products != points->products)
        put_nothing(points);
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
            tokens *= d < record->ndim - 1 ? (size_t)size : 1;
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
    if (products & TT_PRODUCT_PLACED) {
        tt_digest placed;
        memcpy(&placed, tail, sizeof placed);
        tail += sizeof placed;
        put_bits(points, TT_COLUMN_PLACED_LO, placed.low);
        put_bits(points, TT_COLUMN_PLACED_HI, placed.high);
    }
    tt_status st = put_bytes(points, TT_COLUMN_SHAPE, shape, shape_len);
    if (st == TT_OK && products & TT_PRODUCT_HIST)
        st = put_bytes(points, TT_COLUMN_HIST, tail, record->text_len);
    tail += record->text_len;
    if (st == TT_OK && products & TT_PRODUCT_SAMPLE)
        st = put_bytes(points, TT_COLUMN_SAMPLE, tail, record->more_len);
    tail += record->more_len;
    if (st == TT_OK && products & TT_PRODUCT_TOKENS)
        st = put_bytes(points, TT_COLUMN_TOKENS, tail, tokens * TT_SKETCH_BYTES);
    if (products & TT_PRODUCT_VALUE)
        put_int(points, TT_COLUMN_VALUE_AT, record->value);
    points->n++;
    return st;
}

const char *tt_points_bytes(const tt_points *points, tt_column column, uint32_t i, size_t *len)
{
    if (!tt_points_have((uint32_t)points->cells[TT_COLUMN_PRODUCTS][i] & points->products, column))
        return NULL;
    uint64_t from = i > 0 ? points->cells[column][i - 1] : 0;
    *len = points->cells[column][i] - from;
    return points->bytes[column].data != NULL ? points->bytes[column].data + from : "";
}

static void get_shape(const tt_points *points, uint32_t i, tt_point *out)
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

typedef struct place {
    int64_t step, time;
    uint32_t from;
} place;

static int by_step(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

/* Puts the entries of a column of bytes in order; cells: where they end. */
static tt_status move_bytes(const place *places, uint32_t n, uint64_t *cells, uint64_t *room,
                            tt_buf *bytes)
{
    tt_buf moved = { 0 };
    memcpy(room, cells, n * sizeof *cells);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = places[i].from;
        uint64_t start = from > 0 ? room[from - 1] : 0;
        if (room[from] > start)
            (void)tt_buf_append(&moved, bytes->data + start, room[from] - start);
        cells[i] = moved.len;
    }
    tt_status st = moved.st;
    tt_buf_free(bytes);
    *bytes = moved;
    return st;
}

tt_status tt_points_sort(tt_points *points)
{
    uint32_t n = points->n;
    place *places = malloc((n + 1) * sizeof *places);
    uint64_t *room = malloc((n + 1) * sizeof *room);
    tt_status st = places != NULL && room != NULL ? TT_OK : TT_ENOMEM;
    for (uint32_t i = 0; st == TT_OK && i < n; i++)
        places[i] = (place){ .step = (int64_t)points->cells[TT_COLUMN_STEP][i],
                             .time = (int64_t)points->cells[TT_COLUMN_TIME][i],
                             .from = i };
    if (st == TT_OK)
        qsort(places, n, sizeof *places, by_step);
    for (size_t c = 0; st == TT_OK && c < TT_COLUMN_COUNT_; c++) {
        uint64_t *cells = points->cells[c];
        if (!tt_points_have(points->products, c))
            continue;
        if (tt_column_kinds[c].type == TT_COLUMN_BYTES) {
            st = move_bytes(places, n, cells, room, &points->bytes[c]);
            continue;
        }
        for (uint32_t i = 0; i < n; i++)
            room[i] = cells[places[i].from];
        memcpy(cells, room, n * sizeof *cells);
    }
    free(places);
    free(room);
    return st;
}

void tt_points_keep_last(tt_points *points)
{
    uint32_t last = points->n - 1;
    for (size_t c = 0; c < TT_COLUMN_COUNT_; c++) {
        size_t len;
        const char *bytes;
        if (!tt_points_have(points->products, c))
            continue;
        if (tt_column_kinds[c].type != TT_COLUMN_BYTES) {
            points->cells[c][0] = points->cells[c][last];
        } else if ((bytes = tt_points_bytes(points, (tt_column)c, last, &len)) != NULL) {
            if (len > 0)
                memmove(points->bytes[c].data, bytes, len);
            points->cells[c][0] = points->bytes[c].len = len;
        }
    }
    points->n = 1;
    points->products = (uint32_t)points->cells[TT_COLUMN_PRODUCTS][0];
}

void tt_points_get(const tt_points *points, uint32_t i, tt_point *out)
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
        out->scalar = tt_f64_of(points->cells[TT_COLUMN_SCALAR][i]);
    if (products & TT_PRODUCT_STATS) {
#define X(name, field, type, read) out->stats.field = read(points->cells[TT_COLUMN_##name][i]);
        TT_STATS_COLUMN_MAP(X) TT_STATS_MORE_MAP(X) TT_STATS_REST_MAP(X)
#undef X
    }
    if (products & TT_PRODUCT_DIGEST)
        out->digest =
            (tt_digest){ points->cells[TT_COLUMN_DIGEST_LO][i], points->cells[TT_COLUMN_DIGEST_HI][i] };
    if (products & TT_PRODUCT_PLACED)
        out->placed =
            (tt_digest){ points->cells[TT_COLUMN_PLACED_LO][i], points->cells[TT_COLUMN_PLACED_HI][i] };
    if (products & TT_PRODUCT_VALUE)
        out->value_at = (int64_t)points->cells[TT_COLUMN_VALUE_AT][i];
    get_shape(points, i, out);
}

int64_t tt_points_nonfinite(const tt_points *points)
{
    const uint64_t exponent = UINT64_C(0x7ff) << 52;
    for (uint32_t i = 0; i < points->n; i++) {
        uint64_t products = points->cells[TT_COLUMN_PRODUCTS][i];
        if ((products & TT_PRODUCT_STATS) != 0 &&
            (points->cells[TT_COLUMN_NAN][i] | points->cells[TT_COLUMN_POSINF][i] |
             points->cells[TT_COLUMN_NEGINF][i]) != 0)
            return i;
        if ((products & TT_PRODUCT_SCALAR) != 0 &&
            (points->cells[TT_COLUMN_SCALAR][i] & exponent) == exponent)
            return i;
    }
    return -1;
}

uint64_t tt_points_chain(const tt_points *points, uint64_t chain)
{
    static const tt_column columns[] = { TT_COLUMN_PRODUCTS,  TT_COLUMN_STEP,      TT_COLUMN_CALL,
                                         TT_COLUMN_PHASE,     TT_COLUMN_SCALAR,    TT_COLUMN_COUNT,
                                         TT_COLUMN_SUM,       TT_COLUMN_SUMSQ,     TT_COLUMN_MIN,
                                         TT_COLUMN_MAX,       TT_COLUMN_NAN,       TT_COLUMN_POSINF,
                                         TT_COLUMN_NEGINF,    TT_COLUMN_DIGEST_LO, TT_COLUMN_DIGEST_HI,
                                         TT_COLUMN_PLACED_LO, TT_COLUMN_PLACED_HI };
    const uint64_t said = TT_PRODUCT_SCALAR | TT_PRODUCT_STATS | TT_PRODUCT_DIGEST | TT_PRODUCT_PLACED;
    for (uint32_t i = 0; i < points->n; i++) {
        const uint64_t products = points->cells[TT_COLUMN_PRODUCTS][i];
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
            if (!tt_points_have((uint32_t)products, columns[k]))
                continue; /* whichever points came with this one */
            uint64_t x = k == 0 ? products & said : points->cells[columns[k]][i];
            x = (chain ^ x ^ (uint64_t)k << 56) * UINT64_C(0x9e3779b97f4a7c15);
            chain = x ^ x >> 29;
        }
    }
    return chain;
}
