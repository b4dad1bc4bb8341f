/* stats.h -- statistics of several tensors as one.  For report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_STATS_H
#define TT_SUMMARY_STATS_H

#include "tensortap.h"

/* Adds the statistics of another tensor.  imin, imax and isum stay those of `into`. */
void tt_stats_merge(tt_stats *into, const tt_stats *from);

#endif
