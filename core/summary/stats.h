/* stats.h -- statistics of several tensors as one; what follows from their sums.  For report and arrow.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_STATS_H
#define TT_SUMMARY_STATS_H

#include "tensortap.h"

#include <math.h>

/* Adds the statistics of another tensor.  imin, imax and isum stay those of `into`. */
void tt_stats_merge(tt_stats *into, const tt_stats *from);

static inline int64_t tt_finite_of(const tt_stats *s)
{
    return s->count - s->nan - s->posinf - s->neginf;
}

/* Chan, Golub and LeVeque's update of mean and m2: those of a elements and those of b; neither is 0. */
static inline void tt_moments_merge(double a, double b, double *mean, double *m2, double mean_of_b,
                                    double m2_of_b)
{
    double share = b / (a + b), delta = mean_of_b - *mean;
    *m2 += m2_of_b + delta * delta * a * share;
    /* delta overflows where the means are near both ends of f64 */
    *mean = isfinite(delta) ? *mean + delta * share : *mean * (1 - share) + mean_of_b * share;
}

/* NaN if there are too few elements. */
static inline double tt_share_of(double sum, int64_t n)
{
    return n > 0 ? sum / (double)n : (double)NAN;
}

/* What follows from the sums of `s`; whoever evaluates it takes care of the float mode. */
#define TT_STATS_DERIVED_MAP(X)                           \
    X(var, tt_share_of(s->m2, tt_finite_of(s) - 1))       \
    X(std, sqrt(tt_share_of(s->m2, tt_finite_of(s) - 1))) \
    X(l2, sqrt(s->sumsq))                                 \
    X(rms, sqrt(tt_share_of(s->sumsq, tt_finite_of(s))))  \
    X(mean_imag, tt_share_of(s->sum_imag, tt_finite_of(s)))

#endif
