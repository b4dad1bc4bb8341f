/* walk.c -- reads any view, whatever its strides, as contiguous runs.
 *
 * Exists so that each kernel is written once, for contiguous elements.
 * Dimensions that lie behind each other are merged first, so that most tensors
 * become one run that is handed out in place; the rest is copied tile by tile
 * into the caller's buffer.  No allocation.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/walk.h"

#include <assert.h>
#include <string.h>

/* Turns every stride positive and sorts the dimensions, largest stride first,
 * so that the walk follows the addresses.  Equal strides keep their order. */
static void order_by_address(tt_walk *walk)
{
    for (int32_t d = 0; d < walk->ndim; d++) {
        if (walk->stride[d] < 0) {
            walk->at += walk->stride[d] * (walk->shape[d] - 1);
            walk->stride[d] = -walk->stride[d];
        }
    }
    for (int32_t d = 1; d < walk->ndim; d++) {
        int64_t shape = walk->shape[d], stride = walk->stride[d];
        int32_t e = d;
        for (; e > 0 && walk->stride[e - 1] < stride; e--) {
            walk->shape[e] = walk->shape[e - 1];
            walk->stride[e] = walk->stride[e - 1];
        }
        walk->shape[e] = shape;
        walk->stride[e] = stride;
    }
}

/* Joins neighbours that form one evenly spaced run. */
static void merge_dimensions(tt_walk *walk)
{
    int32_t kept = 0;
    for (int32_t d = 1; d < walk->ndim; d++) {
        if (walk->stride[kept] == walk->stride[d] * walk->shape[d]) {
            walk->shape[kept] *= walk->shape[d];
            walk->stride[kept] = walk->stride[d];
        } else {
            kept++;
            walk->shape[kept] = walk->shape[d];
            walk->stride[kept] = walk->stride[d];
        }
    }
    walk->ndim = kept + 1;
}

static size_t element_alignment(tt_dtype dtype)
{
    size_t item = tt_dtype_size(dtype);
    return tt_dtype_kind(dtype) == TT_KIND_COMPLEX ? item / 2 : item;
}

void tt_walk_begin(tt_walk *walk, const tt_tensor *t, tt_order order)
{
    size_t item = tt_dtype_size(t->dtype), alignment = element_alignment(t->dtype);
    walk->at = t->data;
    walk->left = t->count;
    walk->item = item;
    walk->swap = t->is_swapped && alignment > 1 ? alignment : 0;
    walk->ndim = 0;
    for (int32_t d = 0; t->count > 0 && d < t->ndim; d++) {
        if (t->shape[d] == 1)
            continue; /* its stride means nothing */
        walk->shape[walk->ndim] = t->shape[d];
        walk->stride[walk->ndim] = t->stride[d];
        walk->ndim++;
    }
    if (walk->ndim == 0) {
        walk->shape[0] = t->count > 0 ? 1 : 0;
        walk->stride[0] = (int64_t)item;
        walk->ndim = 1;
    }
    if (order == TT_ORDER_MEMORY)
        order_by_address(walk);
    merge_dimensions(walk);
    int32_t inner = walk->ndim - 1;
    bool is_aligned = (uintptr_t)walk->at % alignment == 0;
    for (int32_t d = 0; d < inner; d++) {
        walk->index[d] = 0;
        is_aligned = is_aligned && walk->stride[d] % (int64_t)alignment == 0;
    }
    walk->index[inner] = 0;
    walk->is_direct = is_aligned && walk->stride[inner] == (int64_t)item && walk->swap == 0;
}

/* Elements at any address.  As types, not memcpy, so that the compiler can use
 * vector loads for every second element. */
typedef uint8_t __attribute__((may_alias)) loose1;
typedef uint16_t __attribute__((may_alias, aligned(1))) loose2;
typedef uint32_t __attribute__((may_alias, aligned(1))) loose4;
typedef uint64_t __attribute__((may_alias, aligned(1))) loose8;
typedef struct __attribute__((may_alias, packed)) loose16 {
    uint64_t half[2];
} loose16;

#define COPY_STRIDED(bytes)                                         \
    case bytes: {                                                   \
        loose##bytes *items = (loose##bytes *)to;                   \
        if (stride == 2 * (bytes)) {                                \
            const loose##bytes *pairs = (const loose##bytes *)from; \
            for (size_t i = 0; i < n; i++)                          \
                items[i] = pairs[2 * i];                            \
        } else {                                                    \
            for (size_t i = 0; i < n; i++, from += stride)          \
                items[i] = *(const loose##bytes *)from;             \
        }                                                           \
        break;                                                      \
    }

static void copy_strided(void *restrict to, const char *restrict from, int64_t stride, size_t item,
                         size_t n)
{
    if (stride == (int64_t)item) {
        memcpy(to, from, n * item);
        return;
    }
    switch (item) {
        COPY_STRIDED(1)
        COPY_STRIDED(2)
        COPY_STRIDED(4)
        COPY_STRIDED(8)
        COPY_STRIDED(16)
    default:
        assert(false);
    }
}

void tt_swap_bytes(char *bytes, size_t len, size_t unit)
{
    for (size_t at = 0; at < len; at += unit)
        for (size_t i = 0; i < unit / 2; i++) {
            char kept = bytes[at + i];
            bytes[at + i] = bytes[at + unit - 1 - i];
            bytes[at + unit - 1 - i] = kept;
        }
}

/* Moves on by n elements of the inner dimension; at its end, to the next row. */
static void advance(tt_walk *walk, int64_t n)
{
    int32_t d = walk->ndim - 1;
    walk->left -= n;
    walk->index[d] += n;
    walk->at += n * walk->stride[d];
    while (d > 0 && walk->index[d] == walk->shape[d]) {
        walk->at -= walk->index[d] * walk->stride[d];
        walk->index[d] = 0;
        d--;
        walk->index[d]++;
        walk->at += walk->stride[d];
    }
}

void tt_walk_copy(tt_walk *walk, void *to, size_t n)
{
    int32_t inner = walk->ndim - 1;
    for (char *at = to, *end = at + n; at < end;) {
        int64_t row = walk->shape[inner] - walk->index[inner];
        size_t left = (size_t)(end - at) / walk->item, some = (uint64_t)row < left ? (size_t)row : left;
        copy_strided(at, walk->at, walk->stride[inner], walk->item, some);
        advance(walk, (int64_t)some);
        at += some * walk->item;
    }
    if (walk->swap > 0)
        tt_swap_bytes(to, n, walk->swap);
}

size_t tt_walk_next(tt_walk *walk, void *buffer, size_t max, const void **run)
{
    assert(max > 0 && max * walk->item <= TT_TILE_BYTES);
    size_t want = (uint64_t)walk->left < max ? (size_t)walk->left : max;
    if (want == 0)
        return 0;
    int32_t inner = walk->ndim - 1;
    if (walk->is_direct && (uint64_t)(walk->shape[inner] - walk->index[inner]) >= want) {
        *run = walk->at;
        advance(walk, (int64_t)want);
        return want;
    }
    tt_walk_copy(walk, buffer, want * walk->item);
    *run = buffer;
    return want;
}
