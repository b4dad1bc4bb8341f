/* fuzz_block.c -- any bytes as a body: sections, chunks, a value's head.
 *
 * The checksums would keep a fuzzer out, so chunks are sealed here before they are
 * parsed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "store/block.h"
#include "store/chunk.h"
#include "store/index.h"
#include "store/pack.h"
#include "store/value.h"

#include <stdlib.h>
#include <string.h>

static void try_chunk(const uint8_t *data, size_t size)
{
    unsigned char *bytes = malloc(size + 4);
    tt_chunk chunk;
    tt_points points = { 0 };
    if (bytes == NULL)
        return;
    memcpy(bytes + 4, data, size);
    tt_put_u32(bytes, (uint32_t)tt_block_hash(data, size));
    if (tt_chunk_parse(&chunk, bytes, size + 4) == TT_OK &&
        tt_chunk_unpack(&chunk, 0, &points) == TT_OK) {
        tt_point point;
        size_t len;
        tt_points_get(&points, points.n - 1, &point);
        (void)tt_points_bytes(&points, TT_COLUMN_HIST, points.n / 2, &len);
    }
    tt_points_free(&points);
    free(bytes);
}

static void try_body(const uint8_t *data, size_t size)
{
    tt_sites *sites;
    if (tt_sites_create(&sites) < 0)
        return;
    tt_index index = { .sites = sites, .steps = TT_SPAN_NONE };
    (void)tt_index_read(&index, data, size, 0, 64);
    tt_buf out = { 0 };
    tt_index_pack(&index, &out);
    tt_buf_free(&out);
    tt_index_free(&index);
    tt_sites_free(sites);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 16)
        return 0;
    tt_value_head head;
    tt_block_head block;
    tt_hist_bin bins[32];
    tt_sample *sample;
    tt_dtype dtype;
    size_t count;
    switch (data[0] % 5) { /* the first byte picks the part */
    case 0:
        try_chunk(data + 1, size - 1);
        break;
    case 1:
        try_body(data + 1, size - 1);
        break;
    case 2:
        (void)tt_value_parse(&head, data + 1, size - 1);
        if (size > TT_BLOCK_HEADER)
            (void)tt_block_parse(data + 1, 0, &block);
        break;
    case 3:
        (void)tt_hist_unpack(data + 1, size - 1, bins, 32, &count);
        break;
    default:
        if (tt_sample_unpack(data + 1, size - 1, &sample, &dtype) == TT_OK)
            tt_sample_free(sample);
    }
    return 0;
}
