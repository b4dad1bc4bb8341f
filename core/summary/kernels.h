/* kernels.h -- the table of inner loops, one for each instruction set.
 *
 * Every `*_kernel.c` is compiled once for each instruction set with
 * -DTT_ISA=base|avx2|neon and defines its functions as TT_KERNEL(name).  All
 * sets give the same bits.  Intrinsics appear only in *_kernel.c and *_kernel.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_KERNELS_H
#define TT_SUMMARY_KERNELS_H

#include "tensortap.h"

#define TT_PASTE_(f, isa) tt_##f##_##isa
#define TT_PASTE(f, isa) TT_PASTE_(f, isa)
#define TT_KERNEL(f) TT_PASTE(f, TT_ISA) /* -DTT_ISA=avx2: tt_f_avx2 */

/* What one block of at most TT_TILE elements adds up to; min and max mean
 * nothing when count is 0. */
typedef struct tt_block {
    int64_t count; /* finite elements */
    int64_t nan, posinf, neginf, zeros;
    double min, max;
    double mean, m2; /* sum of (x - mean)^2 */
    double sum, l1, sumsq;
} tt_block;

typedef void tt_convert_f32_fn(tt_dtype dtype, const void *from, float *to, size_t n);
typedef void tt_convert_f64_fn(tt_dtype dtype, const void *from, double *to, size_t n);
/* is_doubtful: NaN or Inf is likely; the answer does not depend on it. */
typedef void tt_stats_f32_fn(const float *x, size_t n, bool is_doubtful, tt_block *out);
typedef void tt_stats_f64_fn(const double *x, size_t n, bool is_doubtful, tt_block *out);
/* f16 and bf16, up to 2 * TT_TILE of them.  False: not all are finite, or f32 is
 * too narrow for the sums; *out is worth nothing. */
typedef bool tt_stats_half_fn(tt_dtype dtype, const uint16_t *x, size_t n, tt_block *out);
/* What must be exact of 64-bit integers; unsigned ones come and go as their bits. */
typedef struct tt_exact {
    int64_t low, high; /* of all blocks so far, this one too; at first the type's largest and smallest */
    uint64_t sum_lo;   /* the block's sum as a 128-bit ... */
    int64_t sum_hi;    /* ... two's complement number */
} tt_exact;
/* False: they are spread over 2^51 and more, and so may be the next.  is_doubtful:
 * that is likely; the answer does not depend on it.  min and max of *out mean nothing. */
typedef bool tt_stats_i64_fn(bool is_unsigned, const int64_t *x, size_t n, bool is_doubtful,
                             tt_block *out, tt_exact *exact);

typedef void tt_digest_bytes_fn(const void *bytes, size_t len, tt_digest *out);
typedef void tt_digest_add_fn(void *state, const void *bytes, size_t len); /* of an XXH3_state_t */
/* Adds n words of `size` bytes (1, 2, 4, 8), the first of which is word number `first` of the whole tensor. */
typedef void tt_placed_add_fn(const void *words, size_t size, size_t n, uint64_t first, tt_digest *out);

/* compare: each call adds n pairs to what the calls before have found. */
struct tt_compare_state;
typedef void tt_compare_f32_fn(const float *a, const float *b, size_t n, struct tt_compare_state *state);
typedef void tt_compare_f64_fn(const double *a, const double *b, size_t n,
                               struct tt_compare_state *state);
typedef void tt_compare_narrow_fn(tt_dtype dtype, const void *a, const void *b, size_t n,
                                  struct tt_compare_state *state);

/* Of attention; rows, queries and keys are tiles of f32 or f64 (see attention.h). */
struct tt_attention_row;
typedef enum tt_attention_mask {
    TT_ATTENTION_NONE,
    TT_ATTENTION_HIDE,
    TT_ATTENTION_ADD
} tt_attention_mask;
typedef void tt_attention_pack_fn(const void *rows, size_t n, size_t dim, size_t width, void *out);
typedef void tt_attention_score_fn(const void *q, const void *k, size_t dim, size_t panels, double scale,
                                   void *scores);
typedef void tt_attention_fold_fn(void *scores, size_t n, tt_attention_mask kind, const double *mask,
                                  struct tt_attention_row *row);

/* Adds whole blocks of 64 to the sketch of a token. */
struct tt_sketch_sums;
typedef void tt_sketch_f32_fn(const float *x, size_t blocks, struct tt_sketch_sums *sums);

/* name, type of function.  One row a kernel. */
#define TT_KERNEL_MAP(X)                          \
    X(convert_f32, tt_convert_f32_fn)             \
    X(convert_f64, tt_convert_f64_fn)             \
    X(stats_f32, tt_stats_f32_fn)                 \
    X(stats_f64, tt_stats_f64_fn)                 \
    X(stats_half, tt_stats_half_fn)               \
    X(stats_i64, tt_stats_i64_fn)                 \
    X(digest_bytes, tt_digest_bytes_fn)           \
    X(digest_add, tt_digest_add_fn)               \
    X(placed_add, tt_placed_add_fn)               \
    X(compare_f32, tt_compare_f32_fn)             \
    X(compare_f64, tt_compare_f64_fn)             \
    X(compare_narrow, tt_compare_narrow_fn)       \
    X(attention_pack_f32, tt_attention_pack_fn)   \
    X(attention_pack_f64, tt_attention_pack_fn)   \
    X(attention_score_f32, tt_attention_score_fn) \
    X(attention_score_f64, tt_attention_score_fn) \
    X(attention_fold_f32, tt_attention_fold_fn)   \
    X(attention_fold_f64, tt_attention_fold_fn)   \
    X(sketch_f32, tt_sketch_f32_fn)

#define X(name, type) type *name;
typedef struct tt_kernels {
    const char *isa;
    TT_KERNEL_MAP(X)
} tt_kernels;
#undef X

#if defined(TT_ISA) /* inside a *_kernel.c */
#define X(name, type) type TT_KERNEL(name);
TT_KERNEL_MAP(X)
#undef X
#endif

/* The best set for this machine, or the one TENSORTAP_ISA names; picked once. */
const tt_kernels *tt_kernels_get(void);
/* Picks a set by name, for tests that compare them; NULL: this machine has none such. */
const tt_kernels *tt_kernels_use(const char *isa);

#endif
