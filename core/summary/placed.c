/* placed.c -- a digest that survives resharding.
 *
 * Exists because the digest of a part says nothing about the whole: this one is a sum over elements of a mix of their
 * bits and of their index in the whole tensor, so those of all parts add up to that of the whole, however it is cut.
 * The digest is, mod 2^128,
 *
 *     the sum over all words of (bits ^ w) * (w | 1),  w = mix(index of the word in the whole tensor)
 *
 * where a word is an element, or each half of one of 16 bytes, and mix is that of placed_kernel.c.  It covers neither
 * shape nor type.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/placed.h"

#include "summary/kernels.h"
#include "tensor/walk.h"

#include <string.h>

/* The parts of one dimension that a rank has, one behind the other. */
typedef struct axis {
    int32_t count;
    int64_t offset[TT_PLACEMENT_BOXES], size[TT_PLACEMENT_BOXES];
} axis;

/* Finds the parts of each dimension; false: the boxes are no grid, or not of this tensor. */
static bool read_axes(const tt_tensor *t, const tt_placement *p, axis *axes)
{
    int64_t boxes = 1;
    for (int32_t d = 0; d < t->ndim; d++) {
        axis *a = &axes[d];
        int64_t size = 0;
        a->count = 0;
        for (int32_t b = 0; b < p->box_count; b++) {
            int32_t k = 0;
            while (k < a->count && (a->offset[k] != p->boxes[b].offset[d]))
                k++;
            if (k < a->count)
                continue;
            a->offset[k] = p->boxes[b].offset[d];
            a->size[k] = p->boxes[b].size[d];
            size += a->size[k];
            a->count++;
        }
        boxes *= a->count;
        if (size != t->shape[d])
            return false;
    }
    return boxes == p->box_count;
}

/* Where the elements of a part are in the whole: spans of consecutive ones. */
typedef struct spans {
    int32_t ndim;               /* of the dimensions in front of the spans */
    int64_t stride[TT_MAX_DIM]; /* in the whole; of all dimensions */
    int64_t at[TT_MAX_DIM];     /* index of the span's first element in each dimension of the part */
    int32_t run[TT_MAX_DIM];    /* which part of the dimension it is in ... */
    int64_t in[TT_MAX_DIM];     /* ... and where in that */
    const axis *axes;           /* borrowed */
    int64_t whole;              /* elements of all dimensions behind the first of a span */
} spans;

/* The next span: its first index in the whole, and how many elements; false: there is none. */
static bool next_span(spans *s, uint64_t *first, int64_t *count)
{
    const int32_t last = s->ndim;
    if (s->run[last] < 0)
        return false;
    uint64_t index = 0;
    for (int32_t d = 0; d < last; d++)
        index += (uint64_t)(s->axes[d].offset[s->run[d]] + s->in[d]) * (uint64_t)s->stride[d];
    index += (uint64_t)s->axes[last].offset[s->run[last]] * (uint64_t)s->stride[last];
    *first = index;
    *count = s->axes[last].size[s->run[last]] * s->whole;
    if (++s->run[last] < s->axes[last].count)
        return true;
    s->run[last] = 0;
    int32_t d = last - 1;
    for (; d >= 0; d--) {
        const axis *a = &s->axes[d];
        if (++s->in[d] < a->size[s->run[d]])
            break;
        s->in[d] = 0;
        if (++s->run[d] < a->count)
            break;
        s->run[d] = 0;
    }
    if (d < 0)
        s->run[last] = -1; /* that was the last one */
    return true;
}

/* Begins with the dimensions behind which everything is there. */
static void begin_spans(spans *s, const tt_tensor *t, const tt_placement *p, const axis *axes)
{
    int64_t stride = 1;
    *s = (spans){ .axes = axes, .whole = 1 };
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        s->stride[d] = stride;
        stride *= p->shape[d];
    }
    s->ndim = t->ndim - 1;
    while (s->ndim > 0 && axes[s->ndim].count == 1 && axes[s->ndim].size[0] == p->shape[s->ndim])
        s->whole *= p->shape[s->ndim--];
}

bool tt_placed_compute(const tt_tensor *t, const tt_placement *p, tt_digest *out)
{
    _Alignas(32) char buffer[TT_TILE_BYTES];
    axis axes[TT_MAX_DIM];
    spans part = { 0 };
    tt_walk walk;
    const void *run;
    const size_t item = tt_dtype_size(t->dtype), words = item > 8 ? item / 8 : 1, word = item / words;
    *out = (tt_digest){ 0 };
    if (item == 0 || (p != NULL && p->ndim != t->ndim))
        return false;
    bool is_whole = p == NULL || t->ndim == 0;
    if (!is_whole && (p->box_count == 0 || !read_axes(t, p, axes)))
        return false;
    if (t->count == 0)
        return true;
    if (!is_whole)
        begin_spans(&part, t, p, axes);
    uint64_t at = 0;
    int64_t left = is_whole ? t->count : 0;
    tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
    for (size_t n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0;)
        for (size_t done = 0, now; done < n; done += now) {
            while (left == 0)
                if (!next_span(&part, &at, &left))
                    return false;
            now = n - done < (uint64_t)left ? n - done : (size_t)left;
            tt_kernels_get()->placed_add((const char *)run + done * item, word, now * words, at * words,
                                         out);
            at += now;
            left -= (int64_t)now;
        }
    return true;
}

void tt_placed_add(tt_digest *into, const tt_digest *more)
{
    uint64_t low = into->low + more->low;
    into->high += more->high + (low < more->low);
    into->low = low;
}
