/* diff.h -- a comparison of two runs, as its parts share it.  For view only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_VIEW_DIFF_H
#define TT_VIEW_DIFF_H

#include "view/order.h"

/* Extremes are single elements: they carry more rounding than a mean. */
#define TT_NOISE_EXTREMES 8.0

/* Two points of one step and call that are not equal. */
typedef struct tt_gap {
    int64_t step, call;
    double deviation; /* in units of the tensor's root mean square */
    double a, b;      /* of the field that deviates most */
    tt_field field;
    bool is_any; /* false: they are equal */
} tt_gap;

typedef struct tt_diff_pair {
    tt_diff_site site;
    tt_gap *gaps; /* owned; as recorded */
    size_t count, cap;
    tt_rank_in_step kind;
    int32_t number; /* of the site in run a: the order of execution */
    double base;    /* rounding of one tensor; see noise.c */
} tt_diff_pair;

struct tt_diff {
    tt_diff_pair *pairs; /* owned */
    size_t count, cap;
    int64_t first; /* pair that parts first; -1: none does */
};

enum { TT_RENAME_ROOM = 4096 + 128 }; /* a name and what it may grow by */

/* Replaces the first occurrence (is_back: of the new by the old); false: there is none. */
bool tt_rename_apply(const tt_rename *rename, bool is_back, const char *name, char *out, size_t room);

/* The rounding to expect of what two sites hold, from type and reduction length. */
tt_status tt_noise_base(tt_run *a, int32_t file_a, int32_t site_a, tt_run *b, int32_t file_b,
                        int32_t site_b, double *out);
/* Fills in verdicts, floors and the first to part. */
tt_status tt_noise_judge(tt_diff *diff, bool has_tolerance);

#endif
