/* diff.h -- a comparison of two runs, as its parts share it.  For view only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_DIFF_H
#define TT_REPORT_DIFF_H

#include "report/order.h"
#include "tensortap_tools.h"

/* Extremes are single elements: they carry more rounding than a mean. */
#define TT_NOISE_EXTREMES 8.0

/* Fields that average over elements, and fields that are one of them. */
typedef enum tt_gap_kind { TT_GAP_AVERAGE, TT_GAP_EXTREME, TT_GAP_COUNT_ } tt_gap_kind;

/* Two points of one step and call that are not equal.  A million of them is not rare:
 * kept small. */
typedef struct tt_gap {
    int64_t step;
    uint32_t call;
    float deviation[TT_GAP_COUNT_];            /* in units of the tensor's root mean square */
    float size;                                /* the larger root mean square, likewise */
    float moved;                               /* how far an optimizer has moved it at once, at most */
    uint8_t field[TT_GAP_COUNT_];              /* tt_field: the one that deviates most ... */
    bool is_any;                               /* false: they are equal */
    double a[TT_GAP_COUNT_], b[TT_GAP_COUNT_]; /* ... and its values; NaN: none deviates */
} tt_gap;

/* What a site has to do with a bias that has a weight beside it. */
typedef enum tt_bias_role {
    TT_ROLE_NONE,
    TT_ROLE_GRADIENT, /* of the bias */
    TT_ROLE_BIAS,
    TT_ROLE_OUTPUT, /* of the module that has the bias */
} tt_bias_role;

typedef struct tt_diff_pair {
    tt_diff_site site;
    tt_gap *gaps; /* owned; as recorded */
    size_t count, cap;
    tt_rank_in_step kind;
    int32_t place; /* in the order of execution, among its kind; see tt_order_place */
    int64_t elements;
    bool is_exact; /* integers, which no rounding changes */
    double base;   /* rounding of one tensor; see noise.c ... */
    double coarse; /* ... the half unit of a type of less than 32 bits in it, or before it */
    double terms;  /* of a gradient: how many are summed for an element */
    tt_bias_role role;
    int32_t partner_place; /* see tt_order_place */
    /* Set by tt_noise_judge: */
    struct tt_diff_pair
        *partner;                /* of a bias: its gradient; of an output: the bias; NULL: not compared */
    double apart[TT_GAP_COUNT_]; /* the largest difference of values so far */
    double reach;                /* of a bias: how far rounding alone may have moved the runs apart */
    bool is_real;                /* of a gradient of a bias: larger than rounding at least once */
} tt_diff_pair;

/* ---- premise.c ---- */
/* Which steps of two runs belong together: those of the same count of the first optimizer. */
typedef struct tt_step_map {
    int64_t *steps; /* owned; ascending; those in which it stepped; NULL: all */
    size_t count;
    int64_t before; /* how many it had done before the run */
} tt_step_map;
tt_status tt_step_maps_make(tt_run *a, tt_run *b, tt_step_map out[2], tt_diff *diff, tt_error *err);
int64_t tt_step_map_of(const tt_step_map *map, int64_t step);
int64_t tt_step_map_back(const tt_step_map *map, int64_t count);
/* Adds what is known of inputs, shapes and types.  The sites are judged. */
tt_status tt_premises_add(tt_run *a, tt_run *b, const tt_step_map maps[2], const tt_rename *rename,
                          tt_diff *diff, tt_error *err);
/* divergence.c: adds what the comparison comes to. */
tt_status tt_diff_conclude(tt_run *a, tt_run *b, const tt_diff_options *options, tt_diff *diff);
/* diff.c: replaces the first occurrence (is_back: of the new by the old); false: there is none. */
bool tt_rename_apply(const tt_rename *rename, bool is_back, const char *name, char *out, size_t room);
/* diff.c: the site of b that this name of a means; -1: none. */
int32_t tt_diff_partner(const tt_run *b, const char *name, const tt_rename *rename);

/* ---- bits.c ---- */
/* A site of one run. */
typedef struct tt_side {
    tt_run *run;
    const tt_step_map *map;
    int32_t file, site;
} tt_side;
/* Counts the points of a parameter whose bits can be compared, and finds the first that differs. */
tt_status tt_bits_compare(const tt_side *a, const tt_side *b, const tt_diff_options *options,
                          tt_diff_site *site);

/* ---- noise.c ---- */
/* Finds the weight on whose scale a bias is judged, and by how much to multiply its root mean square.
 * *weight is -1 if this site is no bias, or has no weight beside it. */
tt_status tt_noise_weight(tt_run *run, int32_t file, int32_t site, int32_t *weight, double *times);
/* Fills in what a site has to do with a bias; has_weight: tt_noise_weight found one. */
void tt_noise_role(const tt_run *run, int32_t site, bool has_weight, tt_diff_pair *pair);
/* Fills in the rounding to expect of what two sites hold, from type and reduction length, and
 * how many elements they have. */
tt_status tt_noise_expect(tt_run *a, int32_t file_a, int32_t site_a, tt_run *b, int32_t file_b,
                          int32_t site_b, tt_diff_pair *pair);
/* Fills in verdicts and floors; *first is the pair that differs first, unless none does. */
tt_status tt_noise_judge(tt_diff_pair *pairs, size_t count, bool has_tolerance, int64_t *first);

#endif
