/* walk.h -- reads any view, whatever its strides, as contiguous runs.
 *
 * For summary, format and view.  The runs hold elements of the tensor's own
 * type, aligned and in the machine's byte order; converting them is the
 * summary's business.
 *
 *     alignas(32) char buffer[TT_TILE_BYTES];
 *     tt_walk walk;
 *     tt_walk_begin(&walk, t, TT_ORDER_LOGICAL);
 *     const void *run;
 *     for (size_t n; (n = tt_walk_next(&walk, buffer, TT_TILE, &run)) > 0;)
 *         ...
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_TENSOR_WALK_H
#define TT_TENSOR_WALK_H

#include "tensortap.h"

enum {
    TT_TILE = 2048,            /* elements; a tile of f32 and its copy stay in L1 */
    TT_TILE_BYTES = 2048 * 16, /* a tile of the widest type */
};

typedef enum tt_order {
    TT_ORDER_LOGICAL, /* last index fastest, as torch and NumPy flatten */
    TT_ORDER_MEMORY,  /* by address: a transposed tensor is read as its storage lies */
} tt_order;

typedef struct tt_walk {
    const char *at; /* next element */
    int64_t left;   /* elements not yet given */
    size_t item;    /* bytes of an element */
    size_t swap;    /* bytes to reverse at a time; 0: none */
    bool is_direct; /* the inner dimension can be handed out as it lies */
    int32_t ndim;   /* of the dimensions below, after merging; at least 1 */
    int64_t shape[TT_MAX_DIM], stride[TT_MAX_DIM], index[TT_MAX_DIM];
} tt_walk;

void tt_walk_begin(tt_walk *walk, const tt_tensor *t, tt_order order);

/* Points *run at the next elements, at most max of them (and no more than
 * TT_TILE_BYTES hold), and returns how many; 0 at the end.  A run is shorter than max only at the end.
 * buffer (TT_TILE_BYTES, aligned to 32) may be used, or not; *run is valid
 * until the next call. */
size_t tt_walk_next(tt_walk *walk, void *buffer, size_t max, const void **run);

/* Copies the next n bytes, of whole elements; so many must be left. */
void tt_walk_copy(tt_walk *walk, void *to, size_t n);

/* Turns the order of the bytes of every unit. */
void tt_swap_bytes(char *bytes, size_t len, size_t unit);

#endif
