/* fuzz_tensor.c -- a description of memory is refused, or every address of the
 * view is the one that arithmetic without overflow gives.
 *
 * The input is a DLTensor: element type, device, offset, sizes and strides.
 * Half of them point into a small real buffer, with strides cut down to it, and
 * are then walked, so that a wrong address is a memory error.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "tensor/walk.h"

#include <string.h>

__extension__ typedef __int128 wide;

enum { MEMORY = 4096, MOST_DIMS = TT_MAX_DIM + 2 };

typedef struct reader {
    const uint8_t *data;
    size_t left;
} reader;

static void take(reader *in, void *out, size_t n)
{
    size_t have = n < in->left ? n : in->left;
    memset(out, 0, n);
    memcpy(out, in->data, have);
    in->data += have;
    in->left -= have;
}

/* The lowest address and the one behind the highest; false: no element. */
static bool find_extent(const tt_dltensor *dl, wide item, wide *low, wide *high)
{
    wide base = (wide)(uintptr_t)dl->data + dl->byte_offset, packed = item;
    *low = base;
    *high = base + item;
    for (int32_t d = 0; d < dl->ndim; d++)
        if (dl->shape[d] == 0)
            return false;
    for (int32_t d = dl->ndim - 1; d >= 0; d--) {
        if (dl->shape[d] == 1)
            continue;
        wide stride = dl->strides != NULL ? dl->strides[d] * item : packed;
        wide reach = stride * (dl->shape[d] - 1);
        *(reach < 0 ? low : high) += reach;
        packed *= dl->shape[d];
    }
    return true;
}

/* Reads element `flat` of the view by index arithmetic. */
static const char *address_of(const tt_tensor *t, int64_t flat)
{
    const char *at = t->data;
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        at += flat % t->shape[d] * t->stride[d];
        flat /= t->shape[d];
    }
    return at;
}

static void walk_all(const tt_tensor *t)
{
    static _Alignas(32) char buffer[TT_TILE_BYTES];
    size_t item = tt_dtype_size(t->dtype);
    for (int order = TT_ORDER_LOGICAL; order <= TT_ORDER_MEMORY; order++) {
        tt_walk walk;
        const void *run;
        int64_t have = 0;
        tt_walk_begin(&walk, t, (tt_order)order);
        for (size_t n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0; have += (int64_t)n)
            for (size_t i = 0; i < n && order == TT_ORDER_LOGICAL; i++)
                MUST(memcmp((const char *)run + i * item, address_of(t, have + (int64_t)i), item) == 0);
        MUST(have == t->count);
    }
}

static void check_view(const tt_dltensor *dl, const tt_tensor *t, const char *memory)
{
    wide item = (wide)tt_dtype_size(t->dtype), count = 1, low, high;
    MUST(t->ndim == dl->ndim && item * 8 == dl->bits);
    for (int32_t d = 0; d < dl->ndim; d++) {
        MUST(t->shape[d] == dl->shape[d] && t->shape[d] >= 0);
        count *= t->shape[d];
        MUST(count <= INT64_MAX);
    }
    MUST(t->count == count);
    if (!find_extent(dl, item, &low, &high))
        return; /* nothing to read */
    MUST((wide)(uintptr_t)t->data == (wide)(uintptr_t)dl->data + dl->byte_offset);
    MUST(t->data != NULL && low >= 0 && high <= (wide)UINTPTR_MAX + 1);
    wide packed = item;
    for (int32_t d = dl->ndim - 1; d >= 0; d--) {
        if (dl->shape[d] > 1) /* the others mean nothing */
            MUST((wide)t->stride[d] == (dl->strides != NULL ? dl->strides[d] * item : packed));
        packed *= dl->shape[d];
    }
    bool is_ours = low >= (wide)(uintptr_t)memory && high <= (wide)(uintptr_t)memory + MEMORY;
    if (is_ours && count <= 20000)
        walk_all(t);
    for (int order = TT_ORDER_LOGICAL; order <= TT_ORDER_MEMORY; order++) {
        tt_walk walk; /* preparing it multiplies sizes and strides, and reads nothing */
        tt_walk_begin(&walk, t, (tt_order)order);
        MUST(walk.left == t->count);
    }
    (void)tt_tensor_is_contiguous(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t kinds[][2] = { { 0, 8 },   { 0, 16 }, { 0, 32 }, { 0, 64 }, { 1, 8 },
                                        { 2, 16 },  { 2, 32 }, { 2, 64 }, { 4, 16 }, { 5, 64 },
                                        { 5, 128 }, { 6, 8 },  { 10, 8 }, { 13, 8 } };
    reader in = { data, size };
    uint8_t flags, kind, ndim;
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
    take(&in, &flags, 1);
    take(&in, &kind, 1);
    take(&in, &ndim, 1);
    bool is_small = (flags & 1) != 0, has_strides = (flags & 2) != 0;
    char *memory = malloc(MEMORY); /* on the heap: the sanitizer knows its ends */
    MUST(memory != NULL);
    for (size_t i = 0; i < MEMORY; i++)
        memory[i] = (char)(i * 7 + i / 256);
    tt_dltensor dl = { .device_type = flags & 4 ? flags >> 4 : 1,
                       .lanes = flags & 8 ? 2 : 1,
                       .ndim = ndim % (is_small ? 6 : MOST_DIMS + 1),
                       .shape = shape,
                       .strides = has_strides ? strides : NULL };
    if (kind < 200) {
        dl.code = kinds[kind % (sizeof kinds / sizeof *kinds)][0];
        dl.bits = kinds[kind % (sizeof kinds / sizeof *kinds)][1];
    } else {
        take(&in, &dl.code, 1);
        take(&in, &dl.bits, 1);
    }
    if (is_small) {
        uint16_t offset;
        take(&in, &offset, sizeof offset);
        dl.data = memory;
        dl.byte_offset = offset % MEMORY;
    } else {
        uint64_t address;
        take(&in, &address, sizeof address);
        memcpy(&dl.data, &address, sizeof dl.data);
        take(&in, &dl.byte_offset, sizeof dl.byte_offset);
    }
    for (int32_t d = 0; d < dl.ndim; d++) {
        if (is_small) {
            int8_t small[2];
            take(&in, small, sizeof small);
            shape[d] = small[0] & 31;
            strides[d] = small[1];
        } else {
            take(&in, &shape[d], sizeof shape[d]);
            take(&in, &strides[d], sizeof strides[d]);
        }
    }
    tt_tensor t = { .count = -77 };
    tt_error err;
    memset(err.text, 'x', sizeof err.text);
    tt_status st = tt_tensor_from_dlpack(&t, &dl, &err);
    if (is_small && kind < 200 && dl.device_type == 1 && dl.lanes == 1)
        MUST(st == TT_OK); /* small numbers, whatever they are, make sense */
    if (st == TT_OK)
        check_view(&dl, &t, memory);
    else
        MUST(t.count == -77 && memchr(err.text, '\0', sizeof err.text) != NULL && err.text[0] != '\0');
    free(memory);
    return 0;
}
