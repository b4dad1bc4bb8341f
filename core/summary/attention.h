/* attention.h -- what attention.c and its kernels share.
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

#endif
