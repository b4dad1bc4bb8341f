/* stats.h -- statistics with kernels chosen by the caller, for tests.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_STATS_H
#define TT_SUMMARY_STATS_H

#include "summary/kernels.h"

void tt_stats_with(const tt_kernels *k, const tt_tensor *t, tt_stats *out);

#endif
