/* block.h -- the unit in which a run file grows.
 *
 * For store only.  A block is a header of 64 bytes, a body that the header
 * checks, in a value block also a payload that the body checks, and padding to
 * a multiple of 64.  The layout is drawn in docs/FORMAT.md.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_BLOCK_H
#define TT_STORE_BLOCK_H

#include "tensortap_tools.h"

enum {
    TT_BLOCK_ALIGN = 64, /* of every block: lets a reader find the next one after damage */
    TT_BLOCK_HEADER = 64,
    TT_BLOCK_BODY_MAX = 32 << 20, /* more is not ours: keeps hostile files small in memory */
    TT_FORMAT_VERSION = 1,
};

typedef enum tt_block_kind {
    TT_BLOCK_SESSION = 1, /* who records: key and value texts */
    TT_BLOCK_BATCH = 2,   /* new sites, points, notes */
    TT_BLOCK_VALUE = 3,   /* bytes of a tensor, or a piece of them */
    TT_BLOCK_INDEX = 4,   /* where everything before is */
    TT_BLOCK_FOOTER = 5,  /* the same, at close, with the latest point of each site */
    TT_BLOCK_END = 6,     /* last 64 bytes of a closed file: says where the footer is */
    TT_BLOCK_GAP = 7,     /* put by repair over what was damaged */
    TT_BLOCK_KIND_COUNT_
} tt_block_kind;

typedef struct tt_block_head {
    tt_block_kind kind;
    uint32_t body;  /* bytes */
    uint32_t id;    /* of the file: a block copied from another file does not fit */
    int64_t length; /* of the whole block */
    uint64_t sequence;
    int64_t first_step; /* END: where the footer is */
    int64_t last_step;
    uint64_t check; /* of the body */
} tt_block_head;

/* The steps from first to last. */
typedef struct tt_span {
    int64_t first, last; /* 0, -1: none */
} tt_span;
#define TT_SPAN_NONE ((tt_span){ 0, -1 })

static inline void tt_span_add(tt_span *span, int64_t first, int64_t last)
{
    bool is_none = span->last < span->first;
    span->first = is_none || first < span->first ? first : span->first;
    span->last = is_none || last > span->last ? last : span->last;
}

static inline int64_t tt_block_round(int64_t bytes)
{
    return (bytes + TT_BLOCK_ALIGN - 1) / TT_BLOCK_ALIGN * TT_BLOCK_ALIGN;
}

/* Bytes from the start of a block to its payload. */
static inline int64_t tt_block_payload_at(uint32_t body)
{
    return tt_block_round((int64_t)TT_BLOCK_HEADER + body);
}

/* The low half of XXH3-128. */
uint64_t tt_block_hash(const void *bytes, size_t n);
/* The same of n bytes of a file, read in stretches into `room`. */
tt_status tt_block_hash_file(int fd, int64_t at, int64_t n, char *room, size_t stretch, uint64_t *out);
/* Fills in head->check and writes the 64 bytes for a block that starts at `at`. */
void tt_block_seal(tt_block_head *head, int64_t at, const void *body, unsigned char out[TT_BLOCK_HEADER]);
/* False: these 64 bytes are not the header of a block at `at` that makes sense. */
bool tt_block_parse(const unsigned char bytes[TT_BLOCK_HEADER], int64_t at, tt_block_head *out);

#endif
