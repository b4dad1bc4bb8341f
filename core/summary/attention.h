/* attention.h -- what attention.c and its kernels share, and its inner entry.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_ATTENTION_H
#define TT_SUMMARY_ATTENTION_H

#include "summary/kernels.h"

enum {
    TT_ATTENTION_ROWS = 6,      /* queries that are scored together: what 16 registers hold */
    TT_ATTENTION_PANEL = 16,    /* keys that are scored together */
    TT_ATTENTION_KEYS = 256,    /* keys of a tile: 16 panels, 64 KB at head_dim 64 */
    TT_ATTENTION_QUERIES = 240, /* queries that share one packing of the keys */
};

/* The softmax of one query so far: sums over the keys seen, relative to max. */
struct tt_attention_row {
    double max;    /* largest score; -Inf before any key is seen */
    double z, w;   /* sum of e^(s - max), and of e^(s - max) (s - max) */
    double first;  /* score of key 0 */
    bool is_begun; /* first is set */
    bool has_nan;  /* a score was NaN (z is NaN for a score of +Inf, too) */
};

/* One call, checked: sizes, and where each operand lies after broadcasting. */
typedef struct tt_attention_operand {
    const char *data;
    tt_dtype dtype;
    bool is_swapped;
    int64_t lead[TT_MAX_DIM];       /* strides of the dimensions before the last two */
    int64_t row_stride, col_stride; /* of the last two; all 0 where broadcast */
} tt_attention_operand;

typedef struct tt_attention_plan {
    tt_attention_operand q, k, mask;
    bool has_mask, is_causal;
    bool is_wide;             /* computed in f64 */
    int32_t leads;            /* dimensions before (query, dim) */
    int64_t lead[TT_MAX_DIM]; /* their sizes, as in q */
    int64_t group;            /* heads that share a head of k */
    int64_t tables;           /* (..., head): the product of lead */
    int64_t queries, keys, dim;
    double scale;
    float *entropy, *max_logit, *sink; /* any may be NULL */
} tt_attention_plan;

tt_status tt_attention_begin(tt_attention_plan *plan, const tt_tensor *q, const tt_tensor *k,
                             const tt_attention_options *options, tt_error *err);
/* Bytes that tt_attention_run needs, aligned to 64; 0: more than there can be. */
size_t tt_attention_scratch(const tt_attention_plan *plan);
/* Fills the outputs of tables [first, last).  Ranges are independent: threads
 * may run them side by side, each with its own scratch. */
void tt_attention_run(const tt_attention_plan *plan, const tt_kernels *kernels, int64_t first,
                      int64_t last, void *scratch);

/* tt_attention_compute with the kernels named. */
tt_status tt_attention_compute_with(const tt_kernels *kernels, const tt_tensor *q, const tt_tensor *k,
                                    const tt_attention_options *options, float *entropy, float *max_logit,
                                    float *sink, tt_error *err);

#endif
