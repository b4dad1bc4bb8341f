/* diff.h -- a comparison of two runs, as its parts share it.  For view only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_DIFF_H
#define TT_REPORT_DIFF_H

#include "report/order.h"
#include "tensortap_tools.h"

/* Extremes are single elements: they carry more rounding than a mean. */
#define TT_NOISE_EXTREMES 8.0
/* Two optimizers' steps of what is rounding differ by less. */
#define TT_NOISE_JUMP 8.0

/* Fields that average over elements, and fields that are one of them. */
typedef enum tt_gap_kind { TT_GAP_AVERAGE, TT_GAP_EXTREME, TT_GAP_COUNT_ } tt_gap_kind;

/* Two points of one step and call that are not equal.  A million of them is not rare:
 * kept small. */
typedef struct tt_gap {
    int64_t step;
    uint32_t call;
    float deviation[TT_GAP_COUNT_]; /* in units of the tensor's root mean square */
    float size;                     /* the larger root mean square, likewise */
    float moved; /* how far the runs, together, move it at once; NaN: not known, < 0: one has jumped */
    uint8_t field[TT_GAP_COUNT_];              /* tt_field: the one that deviates most ... */
    bool is_any;                               /* false: they are equal */
    double a[TT_GAP_COUNT_], b[TT_GAP_COUNT_]; /* ... and its values; NaN: none deviates */
} tt_gap;

/* What a pair has to do with biases that rounding alone moves; see noise.c. */
typedef enum tt_drift_role {
    TT_DRIFT_NONE,
    TT_DRIFT_GRADIENT, /* of a bias */
    TT_DRIFT_BIAS,
    TT_DRIFT_OUTPUT, /* of the module that has the bias */
} tt_drift_role;

/* All from gradient on are set by tt_noise_judge. */
typedef struct tt_drift {
    tt_drift_role role;
    int32_t place;                 /* of the bias's gradient; see tt_order_place */
    double cancelled;              /* of a gradient: the rounding that is left where its terms cancel */
    struct tt_diff_pair *gradient; /* of the bias; NULL: not compared */
    double reach;                  /* of a gradient: how far its rounding may have moved the runs apart */
    double apart; /* of a gradient: the most by which an average of the bias has differed */
    bool is_seen,
        is_real; /* of a gradient: the runs differ in it; larger than rounding, or not what moves the bias */
} tt_drift;

typedef struct tt_diff_pair {
    tt_diff_site site;
    tt_gap *gaps; /* owned; as recorded */
    size_t count, cap;
    tt_rank_in_step kind;
    int32_t place; /* in the order of execution, among its kind; see tt_order_place */
    double base;   /* rounding of one tensor; see noise.c ... */
    double coarse; /* ... the half unit of a type of less than 32 bits in it, or before it */
    double switched[TT_GAP_COUNT_]; /* of a gradient, by a rectifier that rounding switches; 0: none */
    double fan; /* of a parameter: the root of the number of products that are summed for an output */
    int64_t elements;
    tt_drift drift;
} tt_diff_pair;

/* Finds the weight on whose scale a bias is judged, and by how much to multiply its root mean square.
 * *weight is -1 if this site is no bias, or has no weight beside it. */
tt_status tt_noise_weight(tt_run *run, int32_t file, int32_t site, int32_t *weight, double *times);
/* Says what a site has to do with drift; has_weight: tt_noise_weight found one. */
tt_drift tt_noise_drift(const tt_run *run, int32_t site, bool has_weight);
/* Fills in the rounding to expect of what two sites hold, from type and reduction length, and
 * how many elements they have. */
tt_status tt_noise_expect(tt_run *a, int32_t file_a, int32_t site_a, tt_run *b, int32_t file_b,
                          int32_t site_b, tt_diff_pair *pair);
/* Fills in verdicts and floors; *first is the pair that differs first, unless none does. */
tt_status tt_noise_judge(tt_diff_pair *pairs, size_t count, bool has_tolerance, int64_t *first);

#endif
