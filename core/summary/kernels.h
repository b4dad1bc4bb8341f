/* kernels.h -- the table of inner loops, one for each instruction set.
 *
 * Every `*_kernel.c` is compiled once for each instruction set with
 * -DTT_ISA=base|avx2|neon and defines its functions as TT_KERNEL(name).  All
 * sets give the same bits.  Intrinsics appear only in *_kernel.c and
 * lanes_kernel.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_KERNELS_H
#define TT_SUMMARY_KERNELS_H

#include "tensortap.h"

#define TT_PASTE_(f, isa) tt_##f##_##isa
#define TT_PASTE(f, isa) TT_PASTE_(f, isa)
#define TT_KERNEL(f) TT_PASTE(f, TT_ISA) /* -DTT_ISA=avx2: tt_f_avx2 */

/* What one block of at most TT_TILE elements adds up to.  Sums are around
 * pivot; min and max are meaningless when count is 0. */
typedef struct tt_block {
    int64_t count; /* finite elements */
    int64_t nan, posinf, neginf, zeros;
    double min, max;
    double mean, m2; /* sum of (x - mean)^2 */
    double sum, l1, sumsq;
} tt_block;

typedef void tt_convert_f32_fn(tt_dtype dtype, const void *from, float *to, size_t n);
typedef void tt_convert_f64_fn(tt_dtype dtype, const void *from, double *to, size_t n);
typedef void tt_stats_f32_fn(const float *x, size_t n, tt_block *out);
typedef void tt_stats_f64_fn(const double *x, size_t n, tt_block *out);

/* Of attention; rows, queries and keys are tiles of f32 or f64 (see attention.h). */
struct tt_attention_row;
typedef enum tt_attention_mask { TT_ATTENTION_NONE, TT_ATTENTION_HIDE, TT_ATTENTION_ADD } tt_attention_mask;
typedef void tt_attention_pack_fn(const void *rows, size_t n, size_t dim, size_t width, void *out);
typedef void tt_attention_score_fn(const void *q, const void *k, size_t dim, size_t panels, double scale,
                                   void *scores);
typedef void tt_attention_fold_fn(void *scores, size_t n, tt_attention_mask kind, const double *mask,
                                  struct tt_attention_row *row);

/* name, type of function.  One row a kernel. */
#define TT_KERNEL_MAP(X)                          \
    X(convert_f32, tt_convert_f32_fn)             \
    X(convert_f64, tt_convert_f64_fn)             \
    X(attention_pack_f32, tt_attention_pack_fn)   \
    X(attention_pack_f64, tt_attention_pack_fn)   \
    X(attention_score_f32, tt_attention_score_fn) \
    X(attention_score_f64, tt_attention_score_fn) \
    X(attention_fold_f32, tt_attention_fold_fn)   \
    X(attention_fold_f64, tt_attention_fold_fn)

#define X(name, type) type *name;
typedef struct tt_kernels {
    const char *isa;
    TT_KERNEL_MAP(X)
} tt_kernels;
#undef X

/* The best set for this machine, or the one TENSORTAP_ISA names; picked once. */
const tt_kernels *tt_kernels_get(void);
/* A set by name, for tests that compare them; NULL: this machine has none such. */
const tt_kernels *tt_kernels_named(const char *isa);

#endif
