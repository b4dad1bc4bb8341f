/* block.c -- the unit in which a run file grows.
 *
 * Exists so that one file knows the header's bytes.  The header has a checksum of
 * its own, so that a reader can walk from header to header without reading what
 * lies between; the block's place in the file is mixed in, so that a tensor which
 * happens to hold a copy of a run file is never mistaken for blocks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/block.h"

#include "base/file.h"
#include "base/wire.h"
#include "summary/kernels.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Offsets in the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_LENGTH = 8,
    AT_BODY = 16,
    AT_ID = 20,
    AT_SEQUENCE = 24,
    AT_FIRST = 32,
    AT_LAST = 40,
    AT_BODY_CHECK = 48,
    AT_CHECK = 56,
};

static const unsigned char magic[4] = { 'T', 'A', 'P', 0xb1 };

uint64_t tt_block_hash(const void *bytes, size_t n)
{
    tt_digest hash; /* by the kernel for this machine: a third faster on large values */
    tt_kernels_get()->digest_bytes(bytes, n, &hash);
    return hash.low;
}

tt_status tt_block_hash_file(int fd, int64_t at, int64_t n, char *room, size_t stretch, uint64_t *out)
{
    XXH3_state_t state;
    (void)XXH3_128bits_reset(&state);
    while (n > 0) {
        size_t some = (uint64_t)n < stretch ? (size_t)n : stretch;
        tt_status st = tt_file_read(fd, room, some, at);
        if (st < 0)
            return st;
        tt_kernels_get()->digest_add(&state, room, some);
        at += (int64_t)some;
        n -= (int64_t)some;
    }
    *out = XXH3_128bits_digest(&state).low64;
    return TT_OK;
}

void tt_block_seal(tt_block_head *head, int64_t at, const void *body, unsigned char out[TT_BLOCK_HEADER])
{
    head->check = tt_block_hash(body, head->body);
    memset(out, 0, TT_BLOCK_HEADER);
    memcpy(out + AT_MAGIC, magic, sizeof magic);
    out[AT_VERSION] = TT_FORMAT_VERSION;
    out[AT_KIND] = (unsigned char)head->kind;
    tt_put_u64(out + AT_LENGTH, (uint64_t)head->length);
    tt_put_u32(out + AT_BODY, head->body);
    tt_put_u32(out + AT_ID, head->id);
    tt_put_u64(out + AT_SEQUENCE, head->sequence);
    tt_put_u64(out + AT_FIRST, (uint64_t)head->first_step);
    tt_put_u64(out + AT_LAST, (uint64_t)head->last_step);
    tt_put_u64(out + AT_BODY_CHECK, head->check);
    tt_put_u64(out + AT_CHECK, XXH3_64bits_withSeed(out, AT_CHECK, (uint64_t)at));
}

bool tt_block_parse(const unsigned char bytes[TT_BLOCK_HEADER], int64_t at, tt_block_head *out)
{
    if (memcmp(bytes + AT_MAGIC, magic, sizeof magic) != 0 || bytes[AT_VERSION] != TT_FORMAT_VERSION ||
        tt_get_u64(bytes + AT_CHECK) != XXH3_64bits_withSeed(bytes, AT_CHECK, (uint64_t)at))
        return false;
    unsigned kind = bytes[AT_KIND];
    uint64_t length = tt_get_u64(bytes + AT_LENGTH);
    uint32_t body = tt_get_u32(bytes + AT_BODY);
    if (kind == 0 || length % TT_BLOCK_ALIGN != 0 || length > INT64_MAX - (uint64_t)at ||
        body > TT_BLOCK_BODY_MAX || length < (uint64_t)tt_block_payload_at(body))
        return false;
    *out = (tt_block_head){
        .kind = (tt_block_kind)kind, /* one of a later version is stepped over */
        .body = body,
        .id = tt_get_u32(bytes + AT_ID),
        .length = (int64_t)length,
        .sequence = tt_get_u64(bytes + AT_SEQUENCE),
        .first_step = (int64_t)tt_get_u64(bytes + AT_FIRST),
        .last_step = (int64_t)tt_get_u64(bytes + AT_LAST),
        .check = tt_get_u64(bytes + AT_BODY_CHECK),
    };
    return true;
}

bool tt_block_look(const unsigned char bytes[TT_BLOCK_HEADER], int64_t at, tt_block_about *out)
{
    tt_block_head head;
    if (!tt_block_parse(bytes, at, &head))
        return false;
    bool is_end = head.kind == TT_BLOCK_END;
    *out = (tt_block_about){ .is_end = is_end,
                             .footer = is_end ? head.first_step : 0,
                             .length = head.length };
    return true;
}
