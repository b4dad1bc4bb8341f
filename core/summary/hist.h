/* hist.h -- counts in fixed logarithmic bins.  For summaries and their tests.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_HIST_H
#define TT_SUMMARY_HIST_H

#include "summary/kernels.h"

void tt_hist_add_with(const tt_kernels *k, tt_hist *hist, const tt_tensor *t);

#endif
