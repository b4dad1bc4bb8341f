/* origin.h -- which value of a run is the first NaN or Inf that counts.
 *
 * The one definition for nan, health, the page and Python.  Whoever knows the first bad points of
 * sites (a run's footers; the rules, while a run is written) makes candidates of them.
 * For report and health.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_ORIGIN_H
#define TT_REPORT_ORIGIN_H

#include "report/order.h"

/* Why a value that is not finite counts, or not. */
typedef enum tt_badness {
    TT_BAD_FOR_CERTAIN,
    TT_BAD_MASKED,  /* only -Inf, where masks and masked scores have it */
    TT_BAD_SKIPPED, /* a gradient of a step that a scaler skipped: nothing was computed from it */
} tt_badness;

/* A bad point of a site in a file: the first of its badness. */
typedef struct tt_candidate {
    tt_moment when; /* with its file */
    int32_t site;
    int64_t index; /* of the point, if that is known */
    tt_badness badness;
    bool is_number; /* that the program logged */
    bool is_new; /* masked: of a module that returned finite values before, and no mask of 0 and -Inf */
} tt_candidate;

tt_badness tt_badness_of(const char *name, const char *class_name, int64_t nan, int64_t posinf,
                         int64_t neginf, bool is_skipped);
/* What the sentence about an origin says. */
typedef struct tt_origin {
    const char *name;
    int64_t step, nan, inf;
    int64_t sites, ranks; /* that it reached */
    tt_birth birth;
    bool is_eval, is_skipped, is_number, is_half; /* half: float16 */
    bool is_initial; /* a parameter, at its first point: no update of this run made it */
} tt_origin;
/* nan.c: finds the first point of a site that is not finite and counts for certain; *index is -1 if there is none. */
tt_status tt_origin_of_site(tt_run *run, int32_t file, int32_t site, int64_t *index);
tt_status tt_origin_say(const tt_origin *origin, tt_buf *out);
tt_origin tt_origin_of(const tt_nonfinite *n, const char *name);

/* Returns the origin; NULL: nothing counts.  Candidates of a file follow each other.  Of masked ones only a new one
 * is an origin, if a value that counts for certain follows in its step; skipped ones are if there is
 * nothing else. */
const tt_candidate *tt_origin_choose(const tt_candidate *all, size_t count);

#endif
