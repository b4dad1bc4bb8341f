/* chunk.h -- points of one site packed as columns, the way the file holds them.
 *
 * For store only.  A chunk carries its own checksum, so that one can be read
 * without the block around it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_CHUNK_H
#define TT_STORE_CHUNK_H

#include "base/wire.h"
#include "store/points.h"

/* How the entries of a column are packed.  A column of zeros is left out. */
typedef enum tt_packing {
    TT_PACK_SAME,   /* INT: signed varint, FLOAT: 8 bytes, BYTES: length and bytes */
    TT_PACK_LINEAR, /* INT: first and difference, signed varints */
    TT_PACK_DELTA,  /* INT: length; differences as signed varints */
    TT_PACK_RAW,    /* length; 8 bytes each */
    TT_PACK_F32,    /* FLOAT: length; 4 bytes each; only if no bit is lost */
    TT_PACK_BYTES,  /* BYTES: length; all lengths as varints, then all bytes */
    TT_PACK_ZSTD,   /* BYTES: unpacked length, packed length; the above as a zstd frame */
    TT_PACK_PLANES, /* INT, FLOAT: length; see planes.h */
    TT_PACK_COUNT_
} tt_packing;

/* Where a chunk is, and what is in it. */
typedef struct tt_index_chunk {
    int64_t at;                    /* in the file */
    int64_t first;                 /* number of its first point */
    int64_t first_step, last_step; /* the lowest and the highest */
    uint32_t len, n;
} tt_index_chunk;

typedef struct tt_chunk {
    uint32_t site;
    tt_index_chunk entry; /* at: 0 */
    struct {
        const unsigned char *at; /* borrowed of the bytes parsed; NULL: all zeros */
        size_t len;
        tt_packing packing;
    } columns[TT_COLUMN_COUNT_];
} tt_chunk;

/* Appends a chunk. */
void tt_chunk_pack(tt_buf *out, uint32_t site, int64_t first, const tt_points *points);
/* Checks the checksum and finds the columns; the bytes must outlive the chunk. */
tt_status tt_chunk_parse(tt_chunk *out, const void *bytes, size_t len);
/* Unpacks columns of numbers into cells[column], where that is not NULL: a cell for each point, 0 where a point does
 * not have it.  products: those of each point; NULL if every point has every one of these columns. */
tt_status tt_chunk_numbers(const tt_chunk *chunk, const uint64_t *products,
                           uint64_t *const cells[TT_COLUMN_COUNT_], tt_buf *scratch);
/* Unpacks one of them. */
tt_status tt_chunk_column(const tt_chunk *chunk, tt_column column, const uint64_t *products,
                          uint64_t *out, tt_buf *scratch);
/* Appends the bytes of a column; cells: where those of each point end. */
tt_status tt_chunk_bytes(const tt_chunk *chunk, tt_column column, const uint64_t *products,
                         uint64_t *cells, tt_buf *bytes);
/* Appends everything to points, which grow; columns of the skipped products are left out. */
tt_status tt_chunk_unpack(const tt_chunk *chunk, uint32_t skipped, tt_points *points);

#endif
