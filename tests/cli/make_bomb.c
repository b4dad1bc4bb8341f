/* make_bomb.c -- writes run files with right checksums that claim more than they hold.
 *
 *     make_bomb KIND FILE
 *
 * What a stranger could send: each file is small, and a reader that believes it runs out
 * of memory or time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/block.h"
#include "store/chunk.h"
#include "store/index.h"
#include "store/value.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

typedef struct bomb {
    int fd;
    int64_t end;
    uint64_t sequence;
} bomb;

static void must(bool is_fine)
{
    if (is_fine)
        return;
    perror("make_bomb");
    exit(1);
}

/* Appends a block; first_step of an END is where the footer is. */
static int64_t put_block(bomb *b, tt_block_kind kind, const tt_buf *body, const void *payload,
                         size_t payload_len, int64_t first_step)
{
    unsigned char header[TT_BLOCK_HEADER];
    size_t len = body != NULL ? body->len : 0;
    const char *bytes = len > 0 ? body->data : "";
    int64_t at = b->end, payload_at = tt_block_payload_at((uint32_t)len);
    tt_block_head head = { .kind = kind,
                           .body = (uint32_t)len,
                           .id = 1,
                           .length = payload_at + tt_block_round((int64_t)payload_len),
                           .sequence = b->sequence++,
                           .first_step = first_step,
                           .last_step = -1 };
    must(body == NULL || body->st == TT_OK);
    tt_block_seal(&head, at, bytes, header);
    must(pwrite(b->fd, header, sizeof header, at) == sizeof header);
    must(pwrite(b->fd, bytes, len, at + TT_BLOCK_HEADER) == (ssize_t)len);
    must(payload_len == 0 ||
         pwrite(b->fd, payload, payload_len, at + payload_at) == (ssize_t)payload_len);
    b->end += head.length;
    must(ftruncate(b->fd, b->end) == 0);
    return at;
}

static void put_site(tt_buf *body, uint64_t number, const char *name)
{
    tt_buf section = { 0 };
    tt_buf_varint(&section, number);
    tt_buf_varint(&section, strlen(name));
    tt_buf_append(&section, name, strlen(name));
    tt_section_put(body, TT_SECTION_SITES, &section);
    tt_buf_free(&section);
}

typedef struct column {
    uint64_t tag;
    int64_t number; /* packed as SAME */
} column;
#define SAME(name, number)                           \
    {                                                \
        TT_COLUMN_##name << 3 | TT_PACK_SAME, number \
    }

/* n points that take a few bytes. */
static void make_chunk(tt_buf *out, uint64_t site, uint64_t first, uint64_t n, const column *columns,
                       size_t count)
{
    out->len = 0;
    (void)tt_wire_room(out, 4);
    tt_buf_varint(out, site);
    tt_buf_varint(out, first);
    tt_buf_varint(out, n);
    tt_wire_signed(out, 0);
    tt_buf_varint(out, 0);
    for (size_t i = 0; i < count; i++) {
        tt_buf_varint(out, columns[i].tag);
        if ((columns[i].tag & 7) == TT_PACK_SAME) {
            tt_wire_signed(out, columns[i].number);
        } else { /* DELTA: a byte for each */
            unsigned char *zeros = (tt_buf_varint(out, n), tt_wire_room(out, n));
            must(zeros != NULL);
            memset(zeros, 0, n);
        }
    }
    must(out->st == TT_OK);
    tt_put_u32((unsigned char *)out->data, (uint32_t)tt_block_hash(out->data + 4, out->len - 4));
}

enum { MOST = TT_CHUNK_POINTS_MAX };
static const column stats_fine[] = { SAME(PRODUCTS, TT_PRODUCT_STATS), SAME(COUNT, 8), SAME(DTYPE, 1) };
static const column stats_with_nan[] = { SAME(PRODUCTS, TT_PRODUCT_STATS), SAME(COUNT, 8), SAME(DTYPE, 1),
                                         SAME(NAN, 1) };
static const column stats_paid[] = { SAME(PRODUCTS, TT_PRODUCT_STATS),
                                     { TT_COLUMN_TIME << 3 | TT_PACK_DELTA, 0 },
                                     SAME(COUNT, 8),
                                     SAME(DTYPE, 1) };

/* Chunks of as many points as one may have, one behind the other; paid: with a byte for each. */
static void put_points(bomb *b, int sites, uint64_t chunks, bool is_paid)
{
    tt_buf body = { 0 }, chunk = { 0 };
    char name[32];
    for (int i = 0; i < sites; i++) {
        (void)snprintf(name, sizeof name, "activation/layer%d", i);
        put_site(&body, (uint64_t)i, name);
    }
    for (int i = 0; i < sites; i++)
        for (uint64_t k = 0; k < chunks; k++) {
            bool is_last = k + 1 == chunks;
            make_chunk(&chunk, (uint64_t)i, k * MOST, MOST,
                       is_last   ? stats_with_nan
                       : is_paid ? stats_paid
                                 : stats_fine,
                       is_last || is_paid ? 4 : 3);
            tt_section_put(&body, TT_SECTION_CHUNK, &chunk);
        }
    put_block(b, TT_BLOCK_BATCH, &body, NULL, 0, 0);
    tt_buf_free(&body);
    tt_buf_free(&chunk);
}

/* 200 million points in 60 kB. */
static void points(bomb *b)
{
    put_points(b, 1, 3000, false);
}

/* A few bytes below what is refused. */
static void full(bomb *b)
{
    put_points(b, 4, 4, false);
}

/* 13.6 million points in 13.6 MB. */
static void paid(bomb *b)
{
    put_points(b, 8, 26, true);
}

/* An index whose rows name one chunk again and again. */
static void repeat(bomb *b)
{
    enum { TIMES = 200000 };
    tt_buf body = { 0 }, chunk = { 0 }, row = { 0 };
    int64_t at = b->end + TT_BLOCK_HEADER;
    put_site(&body, 0, "x");
    make_chunk(&chunk, 0, 0, 16, stats_fine, 3);
    tt_section_put(&body, TT_SECTION_CHUNK, &chunk);
    at += (int64_t)(body.len - chunk.len);
    put_block(b, TT_BLOCK_BATCH, &body, NULL, 0, 0);
    body.len = 0;
    put_site(&body, 0, "x");
    tt_buf_varint(&row, 0);
    tt_buf_varint(&row, (uint64_t)TIMES * 16);
    tt_wire_signed(&row, -1);
    tt_buf_varint(&row, TIMES);
    for (int i = 0; i < TIMES; i++) {
        tt_wire_signed(&row, i == 0 ? at : 0);
        tt_buf_varint(&row, 0);
        tt_buf_varint(&row, 16);
        tt_buf_varint(&row, chunk.len);
        tt_wire_signed(&row, 0);
        tt_buf_varint(&row, 0);
    }
    tt_section_put(&body, TT_SECTION_INDEX, &row);
    int64_t footer = put_block(b, TT_BLOCK_FOOTER, &body, NULL, 0, 0);
    put_block(b, TT_BLOCK_END, NULL, NULL, 0, footer);
    tt_buf_free(&body);
    tt_buf_free(&chunk);
    tt_buf_free(&row);
}

/* Single points of one site, the last one first. */
static void backwards(bomb *b)
{
    tt_buf body = { 0 }, chunk = { 0 };
    put_site(&body, 0, "x");
    for (uint64_t k = 200000; k > 0; k--) {
        make_chunk(&chunk, 0, k * 2, 1, stats_fine, 3);
        tt_section_put(&body, TT_SECTION_CHUNK, &chunk);
    }
    put_block(b, TT_BLOCK_BATCH, &body, NULL, 0, 0);
    tt_buf_free(&body);
    tt_buf_free(&chunk);
}

/* A value of so many bytes, in pieces that are a zstd frame of zeros each. */
static void put_value(bomb *b, int64_t total, int64_t piece, int64_t first_at)
{
    tt_buf body = { 0 }, chunk = { 0 };
    char *zeros = calloc(1, (size_t)piece);
    size_t bound = ZSTD_compressBound((size_t)piece);
    char *packed = malloc(bound);
    must(zeros != NULL && packed != NULL);
    size_t stored = ZSTD_compress(packed, bound, zeros, (size_t)piece, 1);
    tt_value_head head = { .check = tt_block_hash(packed, stored),
                           .packing = TT_VALUE_ZSTD,
                           .total = total,
                           .len = piece,
                           .stored = (int64_t)stored,
                           .dtype = TT_U8,
                           .ndim = 1,
                           .shape = { total } };
    put_block(b, TT_BLOCK_SESSION, NULL, NULL, 0, 0);
    for (head.at = first_at; head.at < total; head.at += piece) {
        body.len = 0;
        tt_value_pack(&body, &head);
        head.before = put_block(b, TT_BLOCK_VALUE, &body, packed, stored, 0);
    }
    column of_value[] = { SAME(PRODUCTS, TT_PRODUCT_VALUE), SAME(VALUE_AT, head.before) };
    body.len = 0;
    put_site(&body, 0, "x");
    make_chunk(&chunk, 0, 0, 1, of_value, 2);
    tt_section_put(&body, TT_SECTION_CHUNK, &chunk);
    put_block(b, TT_BLOCK_BATCH, &body, NULL, 0, 0);
    tt_buf_free(&body);
    tt_buf_free(&chunk);
    free(zeros);
    free(packed);
}

/* 33 kB that unpack to 1 GB, at once ... */
static void frame(bomb *b)
{
    put_value(b, INT64_C(1) << 30, INT64_C(1) << 30, 0);
}

/* ... and as the recorder writes such a tensor. */
static void zeros(bomb *b)
{
    put_value(b, INT64_C(1) << 30, 8 << 20, 0);
}

/* The last piece of a tensor of 64 GB. */
static void alone(bomb *b)
{
    put_value(b, INT64_C(64) << 30, 1 << 20, (INT64_C(64) << 30) - (1 << 20));
}

static const struct {
    const char *name;
    void (*make)(bomb *);
} kinds[] = {
    { "points", points },       { "full", full },   { "paid", paid },   { "repeat", repeat },
    { "backwards", backwards }, { "frame", frame }, { "zeros", zeros }, { "alone", alone },
};

int main(int argc, char **argv)
{
    bomb b = { .fd = argc == 3 ? open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0666) : -1 };
    must(b.fd >= 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, argv[1]) == 0) {
            kinds[i].make(&b);
            return close(b.fd);
        }
    fprintf(stderr, "make_bomb: no kind '%s'\n", argv[1]);
    return 1;
}
